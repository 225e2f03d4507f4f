//! Ragged attention in a single kernel.

use std::sync::{Mutex, PoisonError};

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::sys::CUfunction_attribute;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{DType, Result, Tensor, bail};

use super::module::is_hopper;
use super::staging::numbers_on;
use super::{Module, address, address_if, device_of, half_suffix, kernel, unwritten};
use crate::batch::Batch;
use crate::cache::RowCache;
use crate::layers::AttentionOptions;

/// Head widths with a kernel for 16 bits, and with one for compute capability 9.0. The kernel for 32 bits takes any up to the widest.
const WIDTHS: [usize; 6] = [32, 64, 80, 96, 128, 256];
const HOPPER_WIDTHS: [usize; 2] = [64, 128];
const WIDEST: usize = 256;

/// Integers that describe the work of a block.
const TILE: usize = 5;

/// A kernel and its launch. Which one it is depends on the device, the data type and the width alone, so that a row always has the same
/// bits.
struct Plan {
    module: Module,
    name: String,
    /// Rows and threads per block.
    rows: usize,
    threads: usize,
    /// Bytes of shared memory beyond those that the kernel declares.
    shared: usize,
}

impl Plan {
    fn of(queries: &Tensor, width: usize) -> Result<Option<Self>> {
        let float = size_of::<f32>();
        if queries.dtype() == DType::F32 && width <= WIDEST {
            // As in `kernels.cu`: a tile of 32 keys with an odd pitch, and eight queries.
            let shared = (32 * (width | 1) + 8 * width) * float;
            let (module, name) = (Module::Kernels, "attention_f32".to_owned());
            return Ok(Some(Self { module, name, rows: 8, threads: 256, shared }));
        }
        let Some(suffix) = half_suffix(queries.dtype()) else { return Ok(None) };
        let name = format!("attention_{suffix}_{width}");
        if HOPPER_WIDTHS.contains(&width) && is_hopper(device_of(queries)?) {
            // As in `hopper.cu`: 128 queries, two stages of 128 keys and values, barriers, and room to align them.
            let shared = (128 + 2 * 2 * 128) * width * 2 + 64 + 1024;
            return Ok(Some(Self { module: Module::Hopper, name, rows: 128, threads: 384, shared }));
        }
        let is_known = WIDTHS.contains(&width);
        Ok(is_known.then_some(Self { module: Module::Kernels, name, rows: 64, threads: 128, shared: 0 }))
    }
}

/// A batch in the form of the kernel.
#[derive(Debug)]
pub(crate) struct Ragged {
    /// The cache rows of all segments, concatenated.
    key_rows: Tensor,
    /// The positions of the batch's rows and then the cache rows for their keys and values. The latter alone if a segment has no rows.
    pub(crate) places: Tensor,
    /// The cache rows for the batch's keys and values.
    pub(super) destinations: Tensor,
    /// The minimum number of rows of the queries, of the cache, and of positions. The kernels do not check bounds.
    query_rows: usize,
    cache_rows: usize,
    pub(crate) positions: usize,
    /// The work of each block, by the number of heads sharing keys and the rows of a block. Reused by layers.
    tiles: Mutex<Vec<((usize, usize), Tensor)>>,
}

impl Ragged {
    pub(crate) fn new(batch: &Batch) -> Result<Self> {
        let mut rows: Vec<u32> = Vec::new();
        let (mut query_rows, mut cache_rows) = (0, 0);
        for segment in batch.segments() {
            let mut needed = segment.offset + segment.len;
            for span in &segment.spans {
                let count = span.len.min(needed);
                rows.extend(span.start as u32..(span.start + count) as u32);
                cache_rows = cache_rows.max(span.start + count);
                needed -= count;
            }
            if needed > 0 {
                bail!("a segment has {needed} cache rows less than it needs");
            }
            query_rows = query_rows.max(segment.first + segment.len);
        }
        let destinations: Vec<u32> = batch.destinations().iter().map(|row| *row as u32).collect();
        let cache_rows = destinations.iter().fold(cache_rows, |rows, row| rows.max(*row as usize + 1));
        let positions = batch.positions();
        let count = destinations.len();
        let own = if positions.len() == count { positions } else { &[] };
        let places = numbers_on(&[own, &destinations].concat(), batch.device())?;
        Ok(Self {
            key_rows: numbers_on(&rows, batch.device())?,
            destinations: places.narrow(0, own.len(), count)?,
            places,
            query_rows,
            cache_rows,
            positions: positions.iter().max().map_or(0, |position| *position as usize + 1),
            tiles: Mutex::default(),
        })
    }

    /// Whether there are positions among the places.
    pub(crate) fn has_positions(&self) -> bool {
        self.places.elem_count() == 2 * self.destinations.elem_count() && self.places.elem_count() > 0
    }

    /// Fails if the batch refers to rows outside the queries or the cache.
    pub(super) fn check(&self, query_rows: usize, cache_rows: usize) -> Result<()> {
        if self.query_rows > query_rows || self.cache_rows > cache_rows {
            bail!(
                "the batch needs {} rows and {} cache rows, but there are {query_rows} and {cache_rows}",
                self.query_rows,
                self.cache_rows
            );
        }
        Ok(())
    }

    /// The work of all blocks of `height` rows if `group` heads share keys. Long work comes first, so that blocks finish at about the same
    /// time.
    fn tiles(&self, batch: &Batch, group: usize, height: usize) -> Result<Tensor> {
        let mut known = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tiles)) = known.iter().find(|(of, _)| *of == (group, height)) {
            return Ok(tiles.clone());
        }
        let mut tiles: Vec<[usize; TILE]> = Vec::new();
        let mut keys = 0;
        for segment in batch.segments() {
            let rows = (0..segment.len * group).step_by(height);
            tiles.extend(rows.map(|row| [segment.first, segment.len, segment.offset, keys, row]));
            keys += segment.offset + segment.len;
        }
        tiles.sort_by_key(|[_, _, offset, _, row]| std::cmp::Reverse(offset + row / group));
        let tiles: Vec<u32> = tiles.into_iter().flatten().map(|value| value as u32).collect();
        let tiles = numbers_on(&tiles, batch.device())?;
        known.push(((group, height), tiles.clone()));
        Ok(tiles)
    }
}

/// Computes attention of `[rows, heads, width]` as `[rows, heads · width]`; `None` if there is no kernel for it.
pub(crate) fn attend(
    queries: &Tensor,
    options: &AttentionOptions,
    batch: &Batch,
    cache: &RowCache,
) -> crate::Result<Option<Tensor>> {
    let (rows, heads, width) = queries.dims3()?;
    let (cache_rows, kv_heads, kv_width) = cache.keys().dims3()?;
    if !queries.device().is_cuda()
        || rows == 0
        || queries.dtype() != cache.keys().dtype()
        || kv_width != width
        || kv_heads == 0
        || !heads.is_multiple_of(kv_heads)
        || cache.values().dims() != cache.keys().dims()
        || cache.value_width() != width
        || options.coarse_slopes.is_some()
        || options.distances.is_some()
        || options.sees_all
        || options.sinks.as_ref().is_some_and(|sinks| sinks.len() != heads)
        || options.slopes.as_ref().is_some_and(|slopes| slopes.len() != heads)
    {
        return Ok(None);
    }
    let Some(plan) = Plan::of(queries, width)? else { return Ok(None) };
    let ragged = batch.ragged()?;
    ragged.check(rows, cache_rows)?;
    let tiles = ragged.tiles(batch, heads / kv_heads, plan.rows)?;
    let numbers = |numbers: &Option<Vec<f32>>| {
        numbers.as_ref().map(|numbers| Tensor::new(numbers.as_slice(), queries.device())).transpose()
    };
    let (slopes, sinks) = (numbers(&options.slopes)?, numbers(&options.sinks)?);
    let queries = queries.contiguous()?;
    let made = unwritten((rows, heads * width), queries.dtype(), device_of(&queries)?)?;
    let addresses = [
        address(&queries)?,
        address(cache.keys())?,
        address(cache.values())?,
        address(&made)?,
        address(&tiles)?,
        address(&ragged.key_rows)?,
        address_if(slopes.as_ref())?,
        address_if(sinks.as_ref())?,
    ];
    let blocks = (tiles.elem_count() / TILE, kv_heads);
    launch(&plan, blocks, &addresses, (heads, width), options, &queries)?;
    Ok(Some(made))
}

fn launch(
    plan: &Plan,
    (tiles, kv_heads): (usize, usize),
    addresses: &[u64],
    (heads, width): (usize, usize),
    options: &AttentionOptions,
    queries: &Tensor,
) -> Result<()> {
    let config = LaunchConfig {
        grid_dim: (tiles as u32, kv_heads as u32, 1),
        block_dim: (plan.threads as u32, 1, 1),
        shared_mem_bytes: plan.shared as u32,
    };
    let AttentionOptions { scale, softcap, window, chunk, .. } = *options;
    let (cap, window, chunk) =
        (softcap.unwrap_or(0.0), window.unwrap_or(0) as i32, chunk.unwrap_or(0) as i32);
    let (heads, kv_heads, width) = (heads as i32, kv_heads as i32, width as i32);
    let function = kernel(device_of(queries)?, plan.module, &plan.name)?;
    if plan.module == Module::Hopper {
        let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.function().set_attribute(most, plan.shared as i32).w()?;
    }
    let mut arguments = function.builder();
    for address in addresses {
        arguments.arg(address);
    }
    arguments.arg(&heads).arg(&kv_heads).arg(&scale).arg(&cap).arg(&window).arg(&chunk);
    if queries.dtype() == DType::F32 {
        arguments.arg(&width);
    }
    // SAFETY: `attend` has checked the heads, widths and rows of all tensors.
    unsafe { arguments.launch(config) }.w()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::batch::{Segment, Span, StateUse};

    const CACHE: usize = 3000;

    fn numbers(rows: usize, heads: usize, width: usize, dtype: DType, device: &Device) -> Tensor {
        Tensor::randn(0.0_f32, 1.5, (rows, heads, width), device).unwrap().to_dtype(dtype).unwrap()
    }

    /// A segment behind `offset` keys, whose keys lie in runs of `run` rows.
    fn segment(first: usize, len: usize, offset: usize, run: usize) -> Segment {
        let runs = (offset + len).div_ceil(run);
        let spans = (0..runs).map(|index| Span {
            start: (index * 7 * run) % (CACHE - run),
            len: run.min(offset + len - index * run),
        });
        let spans = spans.collect();
        Segment { first, len, offset, spans, length: offset + len, state: StateUse::default(), source: 0 }
    }

    /// The same rows as segments of other lengths, in reverse order.
    fn split(segments: &[Segment]) -> Vec<Segment> {
        let parts = segments.iter().rev().flat_map(|segment| {
            let at = segment.len / 3;
            let tail = Segment {
                first: segment.first + at,
                len: segment.len - at,
                offset: segment.offset + at,
                ..segment.clone()
            };
            [(at > 0).then(|| Segment { len: at, ..segment.clone() }), Some(tail)]
        });
        parts.flatten().collect()
    }

    fn bytes(tensor: &Tensor) -> Vec<u32> {
        let numbers = tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        numbers.into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn rows_have_the_same_bits_in_any_segment() {
        let Ok(device) = Device::new_cuda(0) else { return };
        let segments = [
            segment(0, 1, 0, 5),
            segment(1, 130, 700, 64),
            segment(131, 257, 0, 9),
            segment(388, 40, 1001, 500),
        ];
        let rows = 428;
        let batch =
            |segments: &[Segment]| Batch::of(numbers_on(&[0; 428], &device).unwrap(), segments.to_vec());
        for (dtype, width, heads, kv_heads) in [
            (DType::BF16, 128, 8, 2),
            (DType::F16, 64, 6, 6),
            (DType::BF16, 80, 4, 1),
            (DType::F16, 256, 2, 1),
            (DType::F32, 128, 4, 2),
            (DType::F32, 20, 2, 2),
        ] {
            let plain = AttentionOptions::new(width);
            let cap = AttentionOptions { softcap: Some(20.0), window: Some(100), ..plain.clone() };
            let slopes = (0..heads).map(|head| 0.02 * head as f32).collect();
            let slopes = AttentionOptions { slopes: Some(slopes), ..plain.clone() };
            let sinks = AttentionOptions { sinks: Some(vec![0.7; heads]), chunk: Some(256), ..plain.clone() };
            for (index, options) in [plain, cap, slopes, sinks].iter().enumerate() {
                let queries = numbers(rows, heads, width, dtype, &device);
                let keys = numbers(CACHE, kv_heads, width, dtype, &device);
                let values = numbers(CACHE, kv_heads, width, dtype, &device);
                let cache = RowCache::of(keys.clone(), values.clone()).unwrap();
                let made = attend(&queries, options, &batch(&segments), &cache).unwrap().unwrap();
                let [own, keys, values] =
                    [&queries, &keys, &values].map(|tensor| tensor.to_dtype(DType::F32).unwrap());
                let exact = RowCache::of(keys, values).unwrap();
                let other = batch(&segments);
                let exact = other.padded().unwrap().attend(&own, options, &exact).unwrap();
                let near = made.to_dtype(DType::F32).unwrap();
                let error =
                    (&near - &exact).unwrap().sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
                let all = exact.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
                let limit = if dtype == DType::F32 { 1e-5 } else { 6e-3 };
                assert!(
                    (error / all).sqrt() < limit,
                    "{dtype:?}, {width}, options {index}: {error} of {all}"
                );
                let again = attend(&queries, options, &batch(&split(&segments)), &cache).unwrap().unwrap();
                let apart =
                    bytes(&made).iter().zip(bytes(&again)).filter(|(one, other)| **one != *other).count();
                assert_eq!(apart, 0, "{dtype:?}, {width}, options {index}");
            }
        }
    }
}
