//! Scatters rows into the cache.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{DType, Result, Tensor, bail};

use super::{Module, Ragged, address, device_of, kernel};

/// Bytes per copy of a thread.
const PIECE: usize = 16;

/// Copies rows to the batch's destination rows in `cache`. Returns whether there is a kernel for it.
pub(crate) fn store_rows(cache: &Tensor, rows: &Tensor, ragged: &Ragged) -> Result<bool> {
    let (count, heads, width) = rows.dims3()?;
    let (cache_rows, cache_heads, cache_width) = cache.dims3()?;
    let destinations = &ragged.destinations;
    let bytes = heads * width * rows.dtype().size_in_bytes();
    let fits = rows.device().is_cuda()
        && matches!(rows.dtype(), DType::BF16 | DType::F16 | DType::F32)
        && bytes.is_multiple_of(PIECE)
        && (cache_heads, cache_width) == (heads, width)
        && cache.dtype() == rows.dtype()
        && count > 0;
    if !fits {
        return Ok(false);
    }
    ragged.check(count, cache_rows)?;
    if destinations.elem_count() != count {
        bail!("{count} rows have {} destinations in the cache", destinations.elem_count());
    }
    let rows = rows.contiguous()?;
    if !(rows.layout().start_offset() * rows.dtype().size_in_bytes()).is_multiple_of(PIECE) {
        return Ok(false);
    }
    let pieces = bytes / PIECE;
    let config = LaunchConfig {
        grid_dim: (count as u32, 1, 1),
        block_dim: (pieces.clamp(32, 256) as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let addresses = [address(&rows)?, address(cache)?, address(destinations)?];
    let pieces = pieces as i32;
    let function = kernel(device_of(&rows)?, Module::Kernels, "store_rows")?;
    let mut arguments = function.builder();
    for address in &addresses {
        arguments.arg(address);
    }
    arguments.arg(&pieces);
    // SAFETY: destinations are rows of the cache, whose rows have the same size.
    unsafe { arguments.launch(config) }.w()?;
    Ok(true)
}
