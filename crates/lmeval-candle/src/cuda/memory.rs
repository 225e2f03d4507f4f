//! The memory of a device that its driver keeps for later allocations.
//!
//! By default the driver gives unused memory back whenever the host waits for the device, and maps it again for the next pass, which takes
//! longer than some of its kernels.

use candle_core::cuda::cudarc::driver::sys;
use candle_core::{CudaDevice, Device};

/// Lets the driver keep memory that was used once. Failing to do so costs time alone.
pub(crate) fn keep_memory(device: &Device) {
    let Device::Cuda(device) = device else { return };
    let Some(pool) = pool(device) else { return };
    let mut most = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool is the device's own, and the attribute is a 64-bit integer.
    let _ = unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut most).cast()) };
}

/// The free bytes of a device, after unused memory was given back; `None` if the driver does not tell.
pub(crate) fn available(device: &CudaDevice) -> Option<usize> {
    if let Some(pool) = pool(device) {
        let _ = device.cuda_stream().synchronize();
        // SAFETY: the pool is the device's own. Memory in use stays.
        let _ = unsafe { sys::cuMemPoolTrimTo(pool, 0) };
    }
    device.cuda_stream().context().mem_get_info().ok().map(|(free, _)| free)
}

/// The pool of allocations in the order of a stream.
fn pool(device: &CudaDevice) -> Option<sys::CUmemoryPool> {
    let stream = device.cuda_stream();
    let context = stream.context();
    let mut pool = std::ptr::null_mut();
    // SAFETY: the device is that of a live context, and the call writes a handle.
    let found = unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, context.cu_device()) };
    (found == sys::CUresult::CUDA_SUCCESS && context.has_async_alloc()).then_some(pool)
}
