//! Scatters rows into the cache.

use candle_core::cuda::WrapErr;
use candle_core::cuda::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::{CpuStorage, CudaStorage, DType, InplaceOp2, Layout, Result, Tensor, bail};

use super::{KERNELS, MODULE, Ragged, view, with_half_floats, with_u32};

/// Bytes per copy of a thread.
const PIECE: usize = 16;

/// Copies rows to the batch's destination rows in `cache`. Returns whether there is a kernel for it.
pub(crate) fn store_rows(cache: &Tensor, rows: &Tensor, ragged: &Ragged) -> Result<bool> {
    let (count, heads, width) = rows.dims3()?;
    let (cache_rows, cache_heads, cache_width) = cache.dims3()?;
    let destinations = &ragged.destinations;
    let bytes = heads * width * rows.dtype().size_in_bytes();
    let fits = rows.device().is_cuda()
        && matches!(rows.dtype(), DType::BF16 | DType::F16)
        && bytes.is_multiple_of(PIECE)
        && (cache_heads, cache_width) == (heads, width)
        && cache.dtype() == rows.dtype()
        && count > 0;
    if fits {
        ragged.check(count, cache_rows)?;
        if destinations.elem_count() != count {
            bail!("{count} rows have {} destinations in the cache", destinations.elem_count());
        }
        cache.inplace_op2(&rows.contiguous()?, &StoreRows { destinations, pieces: bytes / PIECE })?;
    }
    Ok(fits)
}

struct StoreRows<'a> {
    destinations: &'a Tensor,
    pieces: usize,
}

impl InplaceOp2 for StoreRows<'_> {
    fn name(&self) -> &'static str {
        "store-rows"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<()> {
        bail!("the kernel runs on GPUs only")
    }

    fn cuda_fwd(
        &self,
        cache: &mut CudaStorage,
        cache_layout: &Layout,
        rows: &CudaStorage,
        rows_layout: &Layout,
    ) -> Result<()> {
        let device = rows.device.clone();
        let function = device.get_or_load_custom_func("store_rows", MODULE, KERNELS)?;
        let config = LaunchConfig {
            grid_dim: (self.destinations.elem_count() as u32, 1, 1),
            block_dim: (self.pieces.clamp(32, 256) as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let pieces = self.pieces as i32;
        with_half_floats!(rows, _suffix, Number => {
            let rows = view::<Number>(rows, rows_layout)?;
            let cache = view::<Number>(cache, cache_layout)?;
            with_u32(self.destinations, |destinations| {
                let mut arguments = function.builder();
                arguments.arg(&rows).arg(&cache).arg(&destinations).arg(&pieces);
                // SAFETY: destinations are rows of the cache, whose rows have the same size.
                unsafe { arguments.launch(config) }.w()?;
                Ok(())
            })
        })
    }
}
