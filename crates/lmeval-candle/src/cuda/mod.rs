//! Fused kernels for NVIDIA GPUs, which save round trips through device memory.
//!
//! They are compiled at build time (`kernels.cu`) and loaded on first use. Each has a generic counterpart for other data
//! types and head widths.

#![allow(unsafe_code)] // Kernel launches are unsafe FFI.

mod attention;
mod expand;
mod gemm;
mod silu;
mod states;
mod store;
mod summarise;
mod upload;

pub(crate) use attention::{Ragged, attend};
pub(crate) use expand::{ColumnsOnDevice, GroupedOnDevice};
pub(crate) use gemm::{in_steps, multiply};
pub(crate) use silu::silu_times;
pub(crate) use states::{conv, delta_rule, scan_channels, scan_heads};
pub(crate) use store::store_rows;
pub(crate) use summarise::summarise;
pub(crate) use upload::{finish as finish_upload, upload};

use candle_core::cuda::CudaStorageSlice;
use candle_core::cuda::cudarc::driver::CudaView;
use candle_core::cuda_backend::WrapErr as _;
use candle_core::{CudaStorage, Device, Layout, Result, Storage, Tensor};

/// Binds the device's CUDA context to the calling thread, which loading kernels requires.
pub(crate) fn bind(device: &Device) -> Result<()> {
    match device {
        Device::Cuda(device) => device.cuda_stream().context().bind_to_thread().w(),
        _ => Ok(()),
    }
}

/// The kernels in PTX.
const KERNELS: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));

/// The name of the loaded module.
const MODULE: &str = "lmeval";

/// Runs `$body` with `$storage` as float16 or bfloat16. Other data types are an error.
macro_rules! with_half_floats {
    ($storage:expr, $suffix:ident, $Number:ident => $body:expr) => {
        match &$storage.slice {
            candle_core::cuda::CudaStorageSlice::BF16(_) => {
                type $Number = half::bf16;
                let $suffix = "bf16";
                $body
            }
            candle_core::cuda::CudaStorageSlice::F16(_) => {
                type $Number = half::f16;
                let $suffix = "f16";
                $body
            }
            _ => candle_core::bail!("the kernels support only 16-bit floats"),
        }
    };
}
pub(crate) use with_half_floats;

/// The elements of a contiguous tensor.
fn view<'storage, T: candle_core::cuda_backend::CudaDType>(
    storage: &'storage CudaStorage,
    layout: &Layout,
) -> Result<CudaView<'storage, T>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_cuda_slice::<T>()?.slice(start..end)),
        None => candle_core::bail!("the tensor is not contiguous"),
    }
}

/// Calls `work` with a `u32` tensor on the device.
fn with_u32<R>(tensor: &Tensor, work: impl FnOnce(CudaView<'_, u32>) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cuda(storage) if matches!(storage.slice, CudaStorageSlice::U32(_)) => {
            work(view(storage, layout)?)
        }
        _ => candle_core::bail!("the tensor is not a `u32` tensor on the device"),
    }
}
