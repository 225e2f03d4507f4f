//! Chosen rows of a matrix.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{DType, Result, Tensor};

use super::{Module, address, device_of, kernel, unwritten};

/// Bytes per copy of a thread.
const PIECE: usize = 16;

/// The rows of a matrix that `chosen` names, indices on the device below the number of rows; `None` if there is no kernel for it.
pub(crate) fn gather(matrix: &Tensor, chosen: &Tensor) -> Result<Option<Tensor>> {
    let Ok((_, width)) = matrix.dims2() else { return Ok(None) };
    let bytes = width * matrix.dtype().size_in_bytes();
    let fits = matrix.device().is_cuda()
        && chosen.device().is_cuda()
        && matches!(matrix.dtype(), DType::BF16 | DType::F16 | DType::F32)
        && chosen.dtype() == DType::U32
        && matrix.is_contiguous()
        && chosen.is_contiguous()
        && chosen.elem_count() > 0
        && bytes.is_multiple_of(PIECE)
        && (matrix.layout().start_offset() * matrix.dtype().size_in_bytes()).is_multiple_of(PIECE);
    if !fits {
        return Ok(None);
    }
    let device = device_of(matrix)?;
    let count = chosen.elem_count();
    let made = unwritten((count, width), matrix.dtype(), device)?;
    let pieces = bytes / PIECE;
    let config = LaunchConfig {
        grid_dim: (count as u32, 1, 1),
        block_dim: (pieces.clamp(32, 256) as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let addresses = [address(matrix)?, address(&made)?, address(chosen)?];
    let pieces = pieces as i32;
    let function = kernel(device, Module::Kernels, "gather_rows")?;
    let mut arguments = function.builder();
    for address in &addresses {
        arguments.arg(address);
    }
    arguments.arg(&pieces);
    // SAFETY: both matrices have rows of this size, and the callers choose rows that exist.
    unsafe { arguments.launch(config) }.w()?;
    Ok(Some(made))
}
