//! Copies weights to a device through pinned memory.
//!
//! A copy from a mapped file goes through the driver's own buffer on one thread, which also waits for each page of the file. Here all
//! cores read the file into one of two pinned buffers while the other one is on its way.

use std::sync::{Mutex, PoisonError};

use candle_core::cuda::WrapErr as _;
use candle_core::cuda::cudarc::driver::result::memcpy_htod_async;
use candle_core::cuda::cudarc::driver::{
    CudaEvent, CudaSlice, DevicePtrMut as _, DeviceRepr, PinnedHostSlice,
};
use candle_core::cuda_backend::{CudaDType, DeviceId};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, CudaStorage, DType, Device, Result, Storage, Tensor};
use rayon::prelude::*;

/// Bytes of a buffer.
const BUFFER: usize = 32 << 20;
/// Bytes that a thread reads at a time.
const PIECE: usize = 1 << 20;
/// Smaller tensors are not worth the detour.
const SMALL: usize = 1 << 20;

/// Two buffers of a device, each with the event after which it is free.
struct Buffers {
    device: DeviceId,
    pinned: [PinnedHostSlice<u8>; 2],
    sent: [Option<CudaEvent>; 2],
    next: usize,
}

/// The buffers of the device that was used last. They are freed by [`finish`].
static BUFFERS: Mutex<Option<Buffers>> = Mutex::new(None);

/// Copies the little-endian numbers of a tensor to a GPU; `None` for other devices, types, and small tensors.
pub(crate) fn upload(bytes: &[u8], dtype: DType, shape: &[usize], device: &Device) -> Result<Option<Tensor>> {
    let Device::Cuda(cuda) = device else { return Ok(None) };
    if bytes.len() < SMALL || bytes.len() != shape.iter().product::<usize>() * dtype.size_in_bytes() {
        return Ok(None);
    }
    let storage = match dtype {
        DType::BF16 => copy::<half::bf16>(bytes, cuda)?,
        DType::F16 => copy::<half::f16>(bytes, cuda)?,
        DType::F32 => copy::<f32>(bytes, cuda)?,
        DType::U8 => copy::<u8>(bytes, cuda)?,
        _ => return Ok(None),
    };
    Ok(Some(Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false)))
}

/// Frees the buffers, after the last tensor.
pub(crate) fn finish() {
    *BUFFERS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn copy<T: CudaDType + DeviceRepr>(bytes: &[u8], device: &CudaDevice) -> Result<CudaStorage> {
    let count = bytes.len() / size_of::<T>();
    // SAFETY: every byte is copied below.
    let mut made = unsafe { device.alloc::<T>(count)? };
    fill(bytes, &mut made, device)?;
    Ok(CudaStorage::wrap_cuda_slice(made, device.clone()))
}

fn fill<T>(bytes: &[u8], made: &mut CudaSlice<T>, device: &CudaDevice) -> Result<()> {
    let stream = device.cuda_stream();
    stream.context().bind_to_thread().w()?;
    let mut known = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref().is_none_or(|buffers| buffers.device != device.id()) {
        // SAFETY: a buffer is written before it is read. Flag 0 is plain pinned memory.
        let pinned = || unsafe { stream.context().alloc_pinned_with_flags::<u8>(BUFFER, 0) }.w();
        let pinned = [pinned()?, pinned()?];
        *known = Some(Buffers { device: device.id(), pinned, sent: [None, None], next: 0 });
    }
    let Some(buffers) = known.as_mut() else { return Ok(()) };
    // SAFETY: the bytes of the tensor, which are written from start to end.
    let mut target = unsafe { made.transmute_mut::<u8>(bytes.len()) };
    let Some(target) = target.as_mut() else { candle_core::bail!("a tensor has another size on the device") };
    for (index, chunk) in bytes.chunks(BUFFER).enumerate() {
        let slot = buffers.next;
        buffers.next = 1 - slot;
        if let Some(sent) = buffers.sent[slot].take() {
            sent.synchronize().w()?;
        }
        let pinned = &mut buffers.pinned[slot];
        let room = &mut pinned.as_mut_slice().w()?[..chunk.len()];
        room.par_chunks_mut(PIECE)
            .zip(chunk.par_chunks(PIECE))
            .for_each(|(room, piece)| room.copy_from_slice(piece));
        let start = index * BUFFER;
        let mut part = target.slice_mut(start..start + chunk.len());
        let (address, _written) = part.device_ptr_mut(&stream);
        // SAFETY: the target has as many bytes, and nothing writes to the buffer or frees it before the event below.
        unsafe { memcpy_htod_async(address, room, stream.cu_stream()) }.w()?;
        buffers.sent[slot] = Some(stream.record_event(None).w()?);
    }
    Ok(())
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for sent in self.sent.iter().flatten() {
            // A device that fails here fails at its next use, too.
            let _ = sent.synchronize();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_arrive_whole() {
        let Ok(device) = Device::new_cuda(0) else { return };
        for count in [SMALL / 4, BUFFER / 4, 3 * BUFFER / 4 + 1234, 5] {
            let numbers: Vec<f32> = (0..count).map(|index| (index as f32 * 0.37).sin()).collect();
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let Some(tensor) = upload(&bytes, DType::F32, &[count], &device).unwrap() else {
                assert!(bytes.len() < SMALL);
                continue;
            };
            assert!(tensor.to_vec1::<f32>().unwrap() == numbers, "{count}");
        }
        assert!(upload(&vec![0; SMALL], DType::F32, &[SMALL], &device).unwrap().is_none());
        finish();
    }
}
