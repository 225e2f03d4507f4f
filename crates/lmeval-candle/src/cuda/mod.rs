//! Fused kernels for NVIDIA GPUs, which save round trips through device memory.
//!
//! They are compiled at build time (`kernels.cu`, `hopper.cu`, `expand.cu`) and loaded on first use. Each has a generic counterpart for
//! other data types and head widths.

#![allow(unsafe_code)] // Kernel launches are unsafe FFI.

mod attention;
mod expand;
mod experts;
mod gather;
mod gemm;
mod memory;
mod module;
mod norm;
mod rotate;
mod silu;
mod staging;
mod states;
mod store;
mod summarise;
mod upload;

pub(crate) use attention::{Ragged, attend};
pub(crate) use expand::{ColumnsOnDevice, GroupedOnDevice};
pub(crate) use experts::{Expert, experts};
pub(crate) use gather::gather;
pub(crate) use gemm::{in_steps, multiply};
pub(crate) use memory::{available, keep_memory};
pub(crate) use norm::add_norm;
pub(crate) use rotate::{Projected, Turns, rotate_and_store};
pub(crate) use silu::silu_times;
pub(crate) use staging::numbers_on;
pub(crate) use states::{conv, delta_rule, scan_channels, scan_heads};
pub(crate) use store::store_rows;
pub(crate) use summarise::{Summaries, summarise};
pub(crate) use upload::{finish as finish_upload, upload};

use candle_core::cuda::CudaStorageSlice;
use candle_core::cuda::cudarc::driver::{CudaSlice, CudaView, DevicePtr as _};
use candle_core::cuda_backend::{CudaDType, WrapErr as _};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Device, Layout, Result, Shape, Storage, Tensor, bail};

use self::module::{Module, kernel};

/// Binds the device's CUDA context to the calling thread, which loading kernels requires.
pub(crate) fn bind(device: &Device) -> Result<()> {
    match device {
        Device::Cuda(device) => device.cuda_stream().context().bind_to_thread().w(),
        _ => Ok(()),
    }
}

/// The suffix of kernels for 16-bit floats; `None` for other data types.
fn half_suffix(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::BF16 => Some("bf16"),
        DType::F16 => Some("f16"),
        _ => None,
    }
}

/// The GPU of a tensor.
fn device_of(tensor: &Tensor) -> Result<&CudaDevice> {
    tensor.device().as_cuda_device()
}

/// The address of a contiguous tensor in device memory. It is valid for kernels on the stream of this thread that are launched before the
/// tensor is dropped: memory is freed in the order of the stream.
fn address(tensor: &Tensor) -> Result<u64> {
    fn of<T: CudaDType>(storage: &CudaStorage, layout: &Layout) -> Result<u64> {
        let view = view::<T>(storage, layout)?;
        let stream = storage.device.cuda_stream();
        Ok(view.device_ptr(&stream).0)
    }
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else { bail!("the tensor is not on a GPU") };
    match storage.slice {
        CudaStorageSlice::BF16(_) => of::<half::bf16>(storage, layout),
        CudaStorageSlice::F16(_) => of::<half::f16>(storage, layout),
        CudaStorageSlice::F32(_) => of::<f32>(storage, layout),
        CudaStorageSlice::U32(_) => of::<u32>(storage, layout),
        _ => bail!("there are no kernels for tensors of {:?}", tensor.dtype()),
    }
}

/// The address of a tensor, or 0 without one.
fn address_if(tensor: Option<&Tensor>) -> Result<u64> {
    tensor.map_or(Ok(0), address)
}

/// A tensor whose numbers a kernel is about to write.
fn unwritten(shape: impl Into<Shape>, dtype: DType, device: &CudaDevice) -> Result<Tensor> {
    let shape = shape.into();
    let count = shape.elem_count();
    // SAFETY: the callers launch kernels that write every element.
    let storage = unsafe {
        match dtype {
            DType::BF16 => wrap(device.alloc::<half::bf16>(count)?, device),
            DType::F16 => wrap(device.alloc::<half::f16>(count)?, device),
            DType::F32 => wrap(device.alloc::<f32>(count)?, device),
            _ => bail!("there are no kernels for tensors of {dtype:?}"),
        }
    };
    Ok(Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false))
}

fn wrap<T: CudaDType>(slice: CudaSlice<T>, device: &CudaDevice) -> CudaStorage {
    CudaStorage::wrap_cuda_slice(slice, device.clone())
}

/// The elements of a contiguous tensor.
fn view<'storage, T: CudaDType>(
    storage: &'storage CudaStorage,
    layout: &Layout,
) -> Result<CudaView<'storage, T>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(storage.as_cuda_slice::<T>()?.slice(start..end)),
        None => candle_core::bail!("the tensor is not contiguous"),
    }
}
