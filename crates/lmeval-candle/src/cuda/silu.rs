//! Fused SiLU gate of feed-forward layers.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CpuStorage, CudaStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::{KERNELS, MODULE, view, with_half_floats};

/// Elements per thread.
const NUMBERS: usize = 8;

/// Threads per block.
const THREADS: usize = 256;

/// `silu(gate) · rows` in 16 bits; `None` if there is no kernel for it.
pub(crate) fn silu_times(gate: &Tensor, rows: &Tensor) -> Result<Option<Tensor>> {
    use candle_core::DType::{BF16, F16};
    let fits = gate.device().is_cuda()
        && matches!(gate.dtype(), BF16 | F16)
        && gate.dims() == rows.dims()
        && gate.dtype() == rows.dtype()
        && gate.elem_count().is_multiple_of(NUMBERS)
        && gate.elem_count() > 0;
    if !fits {
        return Ok(None);
    }
    gate.contiguous()?.apply_op2_no_bwd(&rows.contiguous()?, &SiluTimes).map(Some)
}

struct SiluTimes;

impl CustomOp2 for SiluTimes {
    fn name(&self) -> &'static str {
        "silu-times-kernel"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(
        &self,
        gate: &CudaStorage,
        gate_layout: &Layout,
        rows: &CudaStorage,
        rows_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let device = gate.device.clone();
        let count = gate_layout.shape().elem_count();
        let config = LaunchConfig {
            grid_dim: (count.div_ceil(NUMBERS * THREADS) as u32, 1, 1),
            block_dim: (THREADS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let storage = with_half_floats!(gate, suffix, Number => {
            let function = device.get_or_load_custom_func(&format!("silu_times_{suffix}"), MODULE, KERNELS)?;
            let (gate, rows) = (view::<Number>(gate, gate_layout)?, view::<Number>(rows, rows_layout)?);
            // SAFETY: the kernel writes every element.
            let made = unsafe { device.alloc::<Number>(count)? };
            let mut arguments = function.builder();
            arguments.arg(&gate).arg(&rows).arg(&made).arg(&count);
            // SAFETY: all three have `count` elements.
            unsafe { arguments.launch(config) }.w()?;
            CudaStorage::wrap_cuda_slice(made, device.clone())
        });
        Ok((storage, gate_layout.shape().clone()))
    }
}
