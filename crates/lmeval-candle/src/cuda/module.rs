//! The compiled kernels, loaded on first use.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda::WrapErr as _;
use candle_core::cuda::cudarc::driver::{CudaFunction, CudaModule, CudaStream, LaunchArgs};
use candle_core::cuda::cudarc::nvrtc::Ptx;
use candle_core::cuda_backend::DeviceId;
use candle_core::{CudaDevice, Result};
use rustc_hash::FxHashMap;

/// Kernels that are loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    /// `kernels.cu`.
    Kernels,
    /// `expand.cu`.
    Expand,
    /// `hopper.cu`, for devices of compute capability 9.0 alone.
    Hopper,
}

impl Module {
    fn image(self) -> &'static [u8] {
        match self {
            Self::Kernels => include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin")),
            Self::Expand => include_bytes!(concat!(env!("OUT_DIR"), "/expand.fatbin")),
            Self::Hopper => include_bytes!(concat!(env!("OUT_DIR"), "/hopper.fatbin")),
        }
    }
}

/// A kernel and the stream that it runs on.
pub(super) struct Kernel {
    function: CudaFunction,
    stream: Arc<CudaStream>,
}

impl Kernel {
    /// A launch without arguments so far.
    pub(super) fn builder(&self) -> LaunchArgs<'_> {
        self.stream.launch_builder(&self.function)
    }

    /// The kernel itself.
    pub(super) fn function(&self) -> &CudaFunction {
        &self.function
    }
}

/// A module on a device, and those of its functions that were used.
struct Loaded {
    device: DeviceId,
    module: Module,
    handle: Arc<CudaModule>,
    functions: FxHashMap<String, CudaFunction>,
}

/// They live as long as the process.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// A kernel by its name.
pub(super) fn kernel(device: &CudaDevice, module: Module, name: &str) -> Result<Kernel> {
    let stream = device.cuda_stream();
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = loaded.iter().position(|one| one.device == device.id() && one.module == module);
    let index = match known {
        Some(index) => index,
        None => {
            let handle = stream.context().load_module(Ptx::from_binary(module.image().to_vec())).w()?;
            loaded.push(Loaded { device: device.id(), module, handle, functions: FxHashMap::default() });
            loaded.len() - 1
        }
    };
    let one = &mut loaded[index];
    let function = match one.functions.get(name) {
        Some(function) => function.clone(),
        None => {
            let function = one.handle.load_function(name).w()?;
            one.functions.insert(name.to_owned(), function.clone());
            function
        }
    };
    Ok(Kernel { function, stream })
}

/// Whether a device has the instructions that `hopper.cu` needs.
pub(super) fn is_hopper(device: &CudaDevice) -> bool {
    device.cuda_stream().context().compute_capability().is_ok_and(|capability| capability == (9, 0))
}
