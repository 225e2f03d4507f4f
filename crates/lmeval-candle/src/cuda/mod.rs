//! Kernels for NVIDIA's GPUs: what would otherwise go through device memory several times.
//!
//! They are compiled when the program is built (`kernels.cu`) and loaded when the first one is needed. Each has a
//! plain counterpart that other types of numbers and other widths of heads take.

#![allow(unsafe_code)] // Kernels are launched through a foreign interface, which nothing can check.

mod attention;
mod silu;
mod store;

pub(crate) use attention::{Ragged, attend};
pub(crate) use silu::silu_times;
pub(crate) use store::store_rows;

use candle_core::cuda::CudaStorageSlice;
use candle_core::cuda::cudarc::driver::CudaView;
use candle_core::cuda_backend::WrapErr as _;
use candle_core::{CudaStorage, Device, Layout, Result, Storage, Tensor};

/// Makes a device that of the thread that calls: loading kernels needs it.
pub(crate) fn bind(device: &Device) -> Result<()> {
    match device {
        Device::Cuda(device) => device.cuda_stream().context().bind_to_thread().w(),
        _ => Ok(()),
    }
}

/// The kernels, in the assembly language that drivers translate.
const KERNELS: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));

/// The name under which they are loaded.
const MODULE: &str = "lmeval";

/// Runs `$body` with the numbers of `$storage` as 16-bit floats of either kind; other types are an error.
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
            _ => candle_core::bail!("the kernels are made for numbers of 16 bits"),
        }
    };
}
pub(crate) use with_half_floats;

/// The numbers of a contiguous tensor.
fn view<'storage, T: candle_core::cuda_backend::CudaDType>(
    storage: &'storage CudaStorage,
    layout: &Layout,
) -> Result<CudaView<'storage, T>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_cuda_slice::<T>()?.slice(start..end)),
        None => candle_core::bail!("the tensor is not contiguous"),
    }
}

/// Calls `work` with whole numbers that a tensor on the device holds.
fn with_numbers<R>(tensor: &Tensor, work: impl FnOnce(CudaView<'_, u32>) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cuda(storage) if matches!(storage.slice, CudaStorageSlice::U32(_)) => {
            work(view(storage, layout)?)
        }
        _ => candle_core::bail!("the numbers are not on the device"),
    }
}
