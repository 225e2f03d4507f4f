//! Small copies between host and device that do not wait for the device.
//!
//! A copy from or to ordinary memory may first wait for all kernels launched before it, and then the device waits for the next ones. Copies
//! here go through pinned buffers, which are used again as soon as their copies are over.

use std::sync::{Mutex, PoisonError};

use candle_core::cuda::WrapErr as _;
use candle_core::cuda::cudarc::driver::result::{memcpy_dtoh_async, memcpy_htod_async};
use candle_core::cuda::cudarc::driver::{CudaEvent, DevicePtrMut as _, PinnedHostSlice};
use candle_core::cuda_backend::DeviceId;
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Device, Result, Storage, Tensor, bail};

use super::{address, device_of};

/// The bytes of the smallest buffer.
const SMALLEST: usize = 64 << 10;

/// A pinned buffer of a device, and the event after which it is free.
struct Buffer {
    device: DeviceId,
    pinned: PinnedHostSlice<u8>,
    used: Option<CudaEvent>,
}

/// The buffers that no [`Later`] holds.
static FREE: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

impl Buffer {
    /// A buffer of at least this many bytes that no copy uses.
    fn take(bytes: usize, device: &CudaDevice) -> Result<Self> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &Self| {
            buffer.device == device.id()
                && buffer.pinned.num_bytes() >= bytes
                && buffer.used.as_ref().is_none_or(CudaEvent::is_complete)
        };
        if let Some(index) = free.iter().position(fits) {
            let mut buffer = free.swap_remove(index);
            buffer.used = None;
            return Ok(buffer);
        }
        drop(free);
        let bytes = bytes.next_power_of_two().max(SMALLEST);
        // SAFETY: a buffer is written before it is read. Flag 0 is plain pinned memory.
        let pinned = unsafe { device.cuda_stream().context().alloc_pinned_with_flags::<u8>(bytes, 0) }.w()?;
        Ok(Self { device: device.id(), pinned, used: None })
    }

    /// Makes the buffer available again.
    fn give_back(self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// A list of numbers on a device.
pub(crate) fn numbers_on(numbers: &[u32], device: &Device) -> Result<Tensor> {
    let Device::Cuda(cuda) = device else { return Tensor::new(numbers, device) };
    if numbers.is_empty() {
        return Tensor::new(numbers, device);
    }
    let mut buffer = Buffer::take(size_of_val(numbers), cuda)?;
    let stream = cuda.cuda_stream();
    // SAFETY: every number is copied below.
    let mut made = unsafe { cuda.alloc::<u32>(numbers.len())? };
    {
        let room = &mut buffer.pinned.as_mut_slice().w()?[..size_of_val(numbers)];
        for (room, number) in room.chunks_exact_mut(size_of::<u32>()).zip(numbers) {
            room.copy_from_slice(&number.to_ne_bytes());
        }
        let (target, _written) = made.device_ptr_mut(&stream);
        // SAFETY: the target has as many bytes, and nothing writes to the buffer before the event below.
        unsafe { memcpy_htod_async(target, room, stream.cu_stream()) }.w()?;
    }
    buffer.used = Some(stream.record_event(None).w()?);
    buffer.give_back();
    let storage = Storage::Cuda(CudaStorage::wrap_cuda_slice(made, cuda.clone()));
    Ok(Tensor::from_storage(storage, numbers.len(), BackpropOp::none(), false))
}

/// Numbers that a device is about to compute.
pub(crate) struct Later {
    buffer: Option<Buffer>,
    count: usize,
}

impl Later {
    /// Starts to copy the numbers of a float32 tensor to the host.
    pub(crate) fn of(tensor: &Tensor) -> Result<Self> {
        if tensor.dtype() != DType::F32 {
            bail!("results are floats of 32 bits");
        }
        let device = device_of(tensor)?;
        let count = tensor.elem_count();
        let mut buffer = Buffer::take(count * size_of::<f32>(), device)?;
        let stream = device.cuda_stream();
        let source = address(tensor)?;
        let room = &mut buffer.pinned.as_mut_slice().w()?[..count * size_of::<f32>()];
        // SAFETY: the tensor has as many bytes, and the buffer is held until the event below.
        unsafe { memcpy_dtoh_async(room, source, stream.cu_stream()) }.w()?;
        buffer.used = Some(stream.record_event(None).w()?);
        Ok(Self { buffer: Some(buffer), count })
    }

    /// Waits for the numbers.
    pub(crate) fn wait(mut self) -> Result<Vec<f32>> {
        let Some(buffer) = &mut self.buffer else { return Ok(Vec::new()) };
        if let Some(used) = &buffer.used {
            used.synchronize().w()?;
        }
        let bytes = &buffer.pinned.as_slice().w()?[..self.count * size_of::<f32>()];
        let (numbers, _) = bytes.as_chunks::<{ size_of::<f32>() }>();
        Ok(numbers.iter().map(|number| f32::from_ne_bytes(*number)).collect())
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_arrive_in_both_directions() {
        let Ok(device) = Device::new_cuda(0) else { return };
        for round in 0..20 {
            let lists: Vec<Vec<u32>> = [1, 7, 20_000, 50_000]
                .map(|count| (0..count).map(|index| index * 7 + round).collect())
                .into();
            let tensors: Vec<Tensor> = lists.iter().map(|list| numbers_on(list, &device).unwrap()).collect();
            let later: Vec<Later> = tensors
                .iter()
                .map(|tensor| Later::of(&tensor.to_dtype(DType::F32).unwrap()).unwrap())
                .collect();
            for ((list, tensor), later) in lists.iter().zip(tensors).zip(later) {
                assert_eq!(&tensor.to_vec1::<u32>().unwrap(), list);
                let numbers: Vec<f32> = list.iter().map(|number| *number as f32).collect();
                assert_eq!(later.wait().unwrap(), numbers);
            }
        }
    }
}
