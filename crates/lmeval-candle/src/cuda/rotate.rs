//! Head norms, rotation, and storing of keys and values in one kernel.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{DType, Tensor};

use super::{Module, address, address_if, device_of, half_suffix, kernel, unwritten};
use crate::batch::Batch;
use crate::cache::RowCache;

/// Heads per block, and the widest of them, as in `kernels.cu`.
const HEADS: usize = 8;
const WIDEST: usize = 256;
/// Numbers of 16 bits in the pieces in which values are copied.
const NUMBERS: usize = 8;

/// How heads are rotated.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// The cosine and the sine of each pair by position, `[positions, pairs, 2]` in float32.
    pub(crate) table: Tensor,
    /// Whether the numbers of a pair are adjacent, instead of half a head apart.
    pub(crate) is_adjacent: bool,
}

/// Queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Projected<'a> {
    /// `[rows, heads, width]` each.
    Separate([&'a Tensor; 3]),
    /// Side by side, `[rows, (heads + 2 · kv heads) · width]`, and the number of heads of queries.
    Joined(&'a Tensor, usize),
}

/// Where the inputs of the kernel are.
struct Inputs {
    addresses: [u64; 3],
    /// Numbers from a row to the next, of queries, and of keys and values.
    pitches: [usize; 2],
    heads: usize,
}

impl Projected<'_> {
    fn dtype(&self) -> DType {
        self.one().dtype()
    }

    fn one(&self) -> &Tensor {
        match self {
            Self::Separate([queries, ..]) => queries,
            Self::Joined(joined, _) => joined,
        }
    }

    /// The inputs for keys `[count, kv_heads, width]`; `None` if they have another shape.
    fn inputs(&self, count: usize, kv_heads: usize, width: usize) -> crate::Result<Option<Inputs>> {
        let is_aligned = |tensor: &Tensor| {
            tensor.is_contiguous() && tensor.layout().start_offset().is_multiple_of(NUMBERS)
        };
        match self {
            Self::Separate([queries, keys, values]) => {
                let (_, heads, _) = queries.dims3()?;
                let fits = queries.dims() == [count, heads, width]
                    && [keys, values].iter().all(|rows| rows.dims() == [count, kv_heads, width])
                    && [queries, keys, values]
                        .iter()
                        .all(|rows| is_aligned(rows) && rows.dtype() == self.dtype());
                let addresses =
                    || Ok::<_, crate::Error>([address(queries)?, address(keys)?, address(values)?]);
                let pitches = [heads * width, kv_heads * width];
                Ok(if fits { Some(Inputs { addresses: addresses()?, pitches, heads }) } else { None })
            }
            Self::Joined(joined, heads) => {
                let all = (heads + 2 * kv_heads) * width;
                if joined.dims() != [count, all] || !is_aligned(joined) {
                    return Ok(None);
                }
                let start = address(joined)?;
                let behind = |heads: usize| start + (heads * width * joined.dtype().size_in_bytes()) as u64;
                let addresses = [start, behind(*heads), behind(heads + kv_heads)];
                Ok(Some(Inputs { addresses, pitches: [all, all], heads: *heads }))
            }
        }
    }
}

/// Normalises and rotates queries and keys, and stores keys and values in the batch's destination rows. Returns the queries,
/// `[rows, heads, width]`; `None` if there is no kernel for it. `norms` are the weights for queries and keys, and what is added to the mean
/// square.
pub(crate) fn rotate_and_store(
    projected: Projected<'_>,
    norms: Option<(&Tensor, &Tensor, f32)>,
    turns: &Turns,
    batch: &Batch,
    cache: &RowCache,
) -> crate::Result<Option<Tensor>> {
    let count = projected.one().dim(0)?;
    let (positions, pairs, _) = turns.table.dims3()?;
    let (cache_rows, kv_heads, width) = cache.keys().dims3()?;
    let dtype = projected.dtype();
    let is_on_gpu = projected.one().device().is_cuda();
    let Some(suffix) = half_suffix(dtype).filter(|_| is_on_gpu) else { return Ok(None) };
    let is_weight =
        |weight: &Tensor| weight.dims() == [width] && weight.dtype() == dtype && weight.is_contiguous();
    let fits = count > 0
        && cache.keys().dtype() == dtype
        && cache.value_width() == width
        && cache.values().dims() == cache.keys().dims()
        && width <= WIDEST
        && width.is_multiple_of(NUMBERS)
        && pairs * 2 <= width
        && turns.table.dtype() == DType::F32
        && norms.is_none_or(|(query, key, _)| is_weight(query) && is_weight(key));
    if !fits {
        return Ok(None);
    }
    let Some(inputs) = projected.inputs(count, kv_heads, width)? else { return Ok(None) };
    let ragged = batch.ragged()?;
    ragged.check(count, cache_rows)?;
    if !ragged.has_positions() || ragged.places.elem_count() != count * 2 || ragged.positions > positions {
        return Ok(None);
    }
    let device = device_of(projected.one())?;
    let heads = inputs.heads;
    let made = unwritten((count, heads, width), dtype, device)?;
    let config = LaunchConfig {
        grid_dim: (count as u32, (heads + 2 * kv_heads).div_ceil(HEADS) as u32, 1),
        block_dim: ((HEADS * 32) as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let others = [
        address(&made)?,
        address(cache.keys())?,
        address(cache.values())?,
        address(&ragged.places)?,
        address(&turns.table)?,
        address_if(norms.map(|(query, _, _)| query))?,
        address_if(norms.map(|(_, key, _)| key))?,
    ];
    let [query_pitch, key_pitch] = inputs.pitches;
    let sizes = [heads, kv_heads, width, pairs, usize::from(turns.is_adjacent), query_pitch, key_pitch]
        .map(|size| size as i32);
    let (epsilon, count) = (norms.map_or(0.0, |(_, _, epsilon)| epsilon), count as i32);
    let function = kernel(device, Module::Kernels, &format!("rotate_heads_{suffix}"))?;
    let mut arguments = function.builder();
    for address in inputs.addresses.iter().chain(&others) {
        arguments.arg(address);
    }
    for size in &sizes {
        arguments.arg(size);
    }
    arguments.arg(&epsilon).arg(&count);
    // SAFETY: the sizes of all tensors, the destinations in the cache and the positions in the table were checked above.
    unsafe { arguments.launch(config) }.w()?;
    Ok(Some(made))
}
