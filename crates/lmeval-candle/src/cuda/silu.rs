//! Fused SiLU gate of feed-forward layers.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{Result, Tensor};

use super::{Module, address, device_of, half_suffix, kernel, unwritten};

/// Elements per thread.
const NUMBERS: usize = 8;

/// Threads per block.
const THREADS: usize = 256;

/// `silu(gate) · rows` in 16 bits; `None` if there is no kernel for it. With `in_place` it replaces the gate, which saves memory.
pub(crate) fn silu_times(gate: &Tensor, rows: &Tensor, in_place: bool) -> Result<Option<Tensor>> {
    let count = gate.elem_count();
    let is_aligned =
        |tensor: &Tensor| tensor.is_contiguous() && tensor.layout().start_offset().is_multiple_of(NUMBERS);
    let Some(suffix) = half_suffix(gate.dtype()).filter(|_| gate.device().is_cuda()) else { return Ok(None) };
    let fits = gate.dims() == rows.dims()
        && gate.dtype() == rows.dtype()
        && count.is_multiple_of(NUMBERS)
        && count > 0
        && is_aligned(gate)
        && is_aligned(rows);
    if !fits {
        return Ok(None);
    }
    let config = LaunchConfig {
        grid_dim: (count.div_ceil(NUMBERS * THREADS) as u32, 1, 1),
        block_dim: (THREADS as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    let made = if in_place {
        gate.clone()
    } else {
        unwritten(gate.shape().clone(), gate.dtype(), device_of(gate)?)?
    };
    let addresses = [address(gate)?, address(rows)?, address(&made)?];
    let function = kernel(device_of(gate)?, Module::Kernels, &format!("silu_times_{suffix}"))?;
    let mut arguments = function.builder();
    for address in &addresses {
        arguments.arg(address);
    }
    arguments.arg(&count);
    // SAFETY: both have `count` elements, and a thread writes where it alone has read.
    unsafe { arguments.launch(config) }.w()?;
    Ok(Some(made))
}
