//! Ragged attention in a single kernel.

use std::sync::{Mutex, PoisonError};

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CpuStorage, CudaStorage, CustomOp3, DType, Layout, Result, Shape, Tensor, bail};

use super::{KERNELS, MODULE, view, with_half_floats, with_u32};
use crate::batch::Batch;
use crate::cache::RowCache;
use crate::layers::AttentionOptions;

/// Head widths with a kernel.
const WIDTHS: [usize; 6] = [32, 64, 80, 96, 128, 256];

/// Rows per thread block, as in `kernels.cu`.
const ROWS: usize = 64;

/// Integers that describe the work of a block.
const TILE: usize = 5;

/// A batch in the form of the kernel.
#[derive(Debug)]
pub(crate) struct Ragged {
    /// The cache rows of all segments, concatenated.
    key_rows: Tensor,
    /// The cache rows for the batch's keys and values.
    pub(super) destinations: Tensor,
    /// The minimum number of rows of the queries and of the cache. The kernels do not check bounds.
    query_rows: usize,
    cache_rows: usize,
    /// The work of each block, by the number of heads sharing keys. Reused by layers.
    tiles: Mutex<Vec<(usize, Tensor)>>,
}

impl Ragged {
    pub(crate) fn new(batch: &Batch) -> Result<Self> {
        let mut rows: Vec<u32> = Vec::new();
        let mut query_rows = 0;
        for segment in batch.segments() {
            let (before, needed) = (rows.len(), segment.offset + segment.len);
            let seen = segment.spans.iter().flat_map(|span| span.rows());
            rows.extend(seen.take(needed).map(|row| row as u32));
            if rows.len() - before != needed {
                bail!("a segment has {} cache rows but needs {needed}", rows.len() - before);
            }
            query_rows = query_rows.max(segment.first + segment.len);
        }
        let destinations: Vec<u32> = batch.destinations().iter().map(|row| *row as u32).collect();
        let highest = rows.iter().chain(&destinations).max();
        let cache_rows = highest.map_or(0, |row| *row as usize + 1);
        Ok(Self {
            key_rows: Tensor::new(rows, batch.device())?,
            destinations: Tensor::new(destinations, batch.device())?,
            query_rows,
            cache_rows,
            tiles: Mutex::default(),
        })
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

    /// The work of all blocks if `group` heads share keys. Long work comes first, so that blocks finish at about the same time.
    fn tiles(&self, batch: &Batch, group: usize) -> Result<Tensor> {
        let mut known = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tiles)) = known.iter().find(|(of, _)| *of == group) {
            return Ok(tiles.clone());
        }
        let mut tiles: Vec<[usize; TILE]> = Vec::new();
        let mut keys = 0;
        for segment in batch.segments() {
            let rows = (0..segment.len * group).step_by(ROWS);
            tiles.extend(rows.map(|row| [segment.first, segment.len, segment.offset, keys, row]));
            keys += segment.offset + segment.len;
        }
        tiles.sort_by_key(|[_, _, offset, _, row]| std::cmp::Reverse(offset + row / group));
        let tiles: Vec<u32> = tiles.into_iter().flatten().map(|value| value as u32).collect();
        let tiles = Tensor::new(tiles, batch.device())?;
        known.push((group, tiles.clone()));
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
        || !matches!(queries.dtype(), DType::BF16 | DType::F16)
        || !WIDTHS.contains(&width)
        || rows == 0
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
    let ragged = batch.ragged()?;
    ragged.check(rows, cache_rows)?;
    let tiles = ragged.tiles(batch, heads / kv_heads)?;
    let numbers = |numbers: &Option<Vec<f32>>| {
        numbers.as_ref().map(|numbers| Tensor::new(numbers.as_slice(), queries.device())).transpose()
    };
    let (slopes, sinks) = (numbers(&options.slopes)?, numbers(&options.sinks)?);
    let op = Attention { ragged, tiles, slopes, sinks, options };
    let made = queries.contiguous()?.apply_op3_no_bwd(cache.keys(), cache.values(), &op)?;
    Ok(Some(made))
}

struct Attention<'a> {
    ragged: &'a Ragged,
    tiles: Tensor,
    slopes: Option<Tensor>,
    sinks: Option<Tensor>,
    options: &'a AttentionOptions,
}

impl CustomOp3 for Attention<'_> {
    fn name(&self) -> &'static str {
        "ragged-attention"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(
        &self,
        queries: &CudaStorage,
        query_layout: &Layout,
        keys: &CudaStorage,
        key_layout: &Layout,
        values: &CudaStorage,
        value_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (rows, heads, width) = query_layout.shape().dims3()?;
        let (_, kv_heads, _) = key_layout.shape().dims3()?;
        let device = queries.device.clone();
        let blocks = self.tiles.elem_count() / TILE;
        let config = LaunchConfig {
            grid_dim: (blocks as u32, kv_heads as u32, 1),
            block_dim: ((ROWS / 16 * 32) as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let AttentionOptions { scale, softcap, window, chunk, .. } = *self.options;
        let (cap, window) = (softcap.unwrap_or(0.0), window.unwrap_or(0) as i32);
        let chunk = chunk.unwrap_or(0) as i32;
        let (head_count, kv_count) = (heads as i32, kv_heads as i32);
        let per_head =
            [&self.slopes, &self.sinks].map(|numbers| numbers.as_ref().map(Tensor::storage_and_layout));
        let storage = with_half_floats!(queries, suffix, Number => {
            let function =
                device.get_or_load_custom_func(&format!("attention_{suffix}_{width}"), MODULE, KERNELS)?;
            let queries = view::<Number>(queries, query_layout)?;
            let keys = view::<Number>(keys, key_layout)?;
            let values = view::<Number>(values, value_layout)?;
            // SAFETY: the kernel writes every element.
            let made = unsafe { device.alloc::<Number>(rows * heads * width)? };
            with_u32(&self.tiles, |tiles| {
                with_u32(&self.ragged.key_rows, |key_rows| {
                    let mut arguments = function.builder();
                    arguments.arg(&queries).arg(&keys).arg(&values).arg(&made).arg(&tiles).arg(&key_rows);
                    let none = 0u64;
                    let views = per_head.each_ref().map(|numbers| match numbers {
                        Some((storage, layout)) => match &**storage {
                            candle_core::Storage::Cuda(storage) => view::<f32>(storage, layout).map(Some),
                            _ => bail!("the numbers of heads are not on the device"),
                        },
                        None => Ok(None),
                    });
                    let [slopes, sinks] = views;
                    let (slopes, sinks) = (slopes?, sinks?);
                    for numbers in [&slopes, &sinks] {
                        match numbers {
                            Some(numbers) => arguments.arg(numbers),
                            None => arguments.arg(&none),
                        };
                    }
                    arguments.arg(&head_count).arg(&kv_count).arg(&scale).arg(&cap).arg(&window).arg(&chunk);
                    // SAFETY: `attend` has checked the heads, widths and rows of all tensors.
                    unsafe { arguments.launch(config) }.w()?;
                    Ok(())
                })
            })?;
            CudaStorage::wrap_cuda_slice(made, device.clone())
        });
        Ok((storage, Shape::from((rows, heads * width))))
    }
}
