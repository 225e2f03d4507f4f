//! Statistics of rows of logits in one pass, without copies of them.

use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::cuda::{CudaStorageSlice, WrapErr};
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use super::{KERNELS, MODULE, view};

/// Threads per block, as in `kernels.cu`.
const THREADS: u32 = 512;
/// Indices below this are exact as 32-bit floats.
const EXACT: usize = 1 << 24;

/// The largest number of each row of `[rows, count]`, the sum of exponentials relative to it, and its index, as `[rows, 3]` in float32;
/// `None` if there is no kernel for it.
pub(crate) fn summarise(logits: &Tensor) -> Result<Option<Tensor>> {
    let (_, count) = logits.dims2()?;
    if !logits.device().is_cuda() || !logits.is_contiguous() || count > EXACT || logits.elem_count() == 0 {
        return Ok(None);
    }
    logits.apply_op1_no_bwd(&Summarise).map(Some)
}

struct Summarise;

impl CustomOp1 for Summarise {
    fn name(&self) -> &'static str {
        "summarise-rows"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(&self, logits: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let (rows, count) = layout.shape().dims2()?;
        let device = logits.device.clone();
        // SAFETY: the kernel writes every element.
        let made = unsafe { device.alloc::<f32>(rows * 3)? };
        let config =
            LaunchConfig { grid_dim: (rows as u32, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        let count = count as i32;
        macro_rules! launch {
            ($suffix:literal, $Number:ty) => {{
                let function =
                    device.get_or_load_custom_func(concat!("summarise_", $suffix), MODULE, KERNELS)?;
                let rows = view::<$Number>(logits, layout)?;
                let mut arguments = function.builder();
                arguments.arg(&rows).arg(&made).arg(&count);
                // SAFETY: each block reads a row of `count` numbers, and writes three.
                unsafe { arguments.launch(config) }.w()?;
            }};
        }
        match &logits.slice {
            CudaStorageSlice::BF16(_) => launch!("bf16", half::bf16),
            CudaStorageSlice::F16(_) => launch!("f16", half::f16),
            CudaStorageSlice::F32(_) => launch!("f32", f32),
            _ => bail!("logits are floats of 16 or 32 bits"),
        }
        Ok((CudaStorage::wrap_cuda_slice(made, device), Shape::from((rows, 3))))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    #[test]
    fn rows_have_the_statistics_of_separate_operations() {
        let Ok(device) = Device::new_cuda(0) else { return };
        for (dtype, count) in
            [(DType::BF16, 128_256), (DType::F16, 1000), (DType::F32, 7), (DType::F32, 50_257)]
        {
            let logits = Tensor::randn(0.0_f32, 3.0, (37, count), &device).unwrap().to_dtype(dtype).unwrap();
            let made = summarise(&logits).unwrap().unwrap().to_vec2::<f32>().unwrap();
            let numbers = logits.to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap();
            for (made, row) in made.iter().zip(&numbers) {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let best = row.iter().position(|number| *number == largest).unwrap();
                let total: f64 = row.iter().map(|number| f64::from(number - largest).exp()).sum();
                assert_eq!((made[0], made[2]), (largest, best as f32));
                assert!((f64::from(made[1]) / total - 1.0).abs() < 1e-5, "{} {total}", made[1]);
            }
        }
    }
}
