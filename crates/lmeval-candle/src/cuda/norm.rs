//! Residual sums and norms in one pass.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{DType, Result, Tensor};

use super::{Module, address, address_if, device_of, half_suffix, kernel, unwritten};

/// Numbers that a thread takes at once, and how often it does, as in `kernels.cu`.
const NUMBERS: usize = 8;
const PIECES: usize = 4;
/// The most threads per block.
const MOST_THREADS: usize = 1024;

/// The sum of `rows` and `added`, and its RMS norm; `None` if there is no kernel for it.
pub(crate) fn add_norm(
    rows: &Tensor,
    added: Option<&Tensor>,
    weight: &Tensor,
    epsilon: f32,
) -> Result<Option<(Tensor, Tensor)>> {
    let (dtype, Ok((count, width))) = (rows.dtype(), rows.dims2()) else { return Ok(None) };
    let Some(suffix) = half_suffix(dtype).filter(|_| rows.device().is_cuda()) else { return Ok(None) };
    let fits = width.is_multiple_of(NUMBERS)
        && width <= NUMBERS * PIECES * MOST_THREADS
        && count > 0
        && weight.dims() == [width]
        && weight.is_contiguous()
        && (weight.dtype() == dtype || weight.dtype() == DType::F32)
        && added.is_none_or(|added| added.dims() == rows.dims() && added.dtype() == dtype);
    if !fits {
        return Ok(None);
    }
    let (rows, added) = (rows.contiguous()?, added.map(Tensor::contiguous).transpose()?);
    let whole = [Some(&rows), added.as_ref()];
    if whole.into_iter().flatten().any(|rows| !rows.layout().start_offset().is_multiple_of(NUMBERS)) {
        return Ok(None);
    }
    let device = device_of(&rows)?;
    let sums = if added.is_some() { unwritten((count, width), dtype, device)? } else { rows.clone() };
    let made = unwritten((count, width), dtype, device)?;
    let threads = width.div_ceil(NUMBERS).min(MOST_THREADS.min(width.div_ceil(NUMBERS * 2).max(32)));
    let threads = threads.max(width.div_ceil(NUMBERS * PIECES)).next_multiple_of(32);
    let config = LaunchConfig {
        grid_dim: (count as u32, 1, 1),
        block_dim: (threads as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let addresses =
        [address(&rows)?, address_if(added.as_ref())?, address(weight)?, address(&sums)?, address(&made)?];
    let width = width as i32;
    let name = if weight.dtype() == dtype { "add_norm" } else { "add_wide_norm" };
    let function = kernel(device, Module::Kernels, &format!("{name}_{suffix}"))?;
    let mut arguments = function.builder();
    for address in &addresses {
        arguments.arg(address);
    }
    arguments.arg(&width).arg(&epsilon);
    // SAFETY: all rows have the same width, which the threads of a block cover.
    unsafe { arguments.launch(config) }.w()?;
    Ok(Some((sums, made)))
}
