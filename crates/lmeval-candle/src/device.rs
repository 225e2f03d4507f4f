//! Where a model computes.

use std::fmt;

use candle_core::Device;
use lmeval_core::{ModelError, ModelSettings};

use crate::arguments::{configuration, natural};

/// The most workers of a run: more are a mistake.
const WORKERS: usize = 256;

/// A device by its name; nothing is done there before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// The processor.
    #[default]
    Cpu,
    /// One of NVIDIA's GPUs, by its number.
    Gpu(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl Place {
    /// The device.
    pub(crate) fn open(self) -> Result<Device, ModelError> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Gpu(number) => {
                check_libraries()?;
                Device::new_cuda(number)
                    .map_err(|error| configuration(format!("The device `{self}` cannot be used: {error}")))
            }
        }
    }
}

/// The places that a model computes at: as many as `data_parallel` says.
///
/// A device that is named with its number has all of them; else each GPU has one.
pub(crate) fn places(settings: &ModelSettings) -> Result<Vec<Place>, ModelError> {
    let count = match natural(settings, "data_parallel")? {
        None => 1,
        Some(count) if (1..=WORKERS).contains(&count) => count,
        Some(count) => {
            return Err(configuration(format!(
                "The model argument `data_parallel` must be a number from 1 to {WORKERS}, not `{count}`"
            )));
        }
    };
    let name = settings.text("device").or_else(|| settings.device.clone());
    match name.as_deref() {
        None if gpus() == 0 => Ok(vec![Place::Cpu; count]),
        None | Some("cuda") => each_gpu(count),
        Some("cpu") => Ok(vec![Place::Cpu; count]),
        Some(other) => match other.strip_prefix("cuda:").and_then(|number| number.parse().ok()) {
            Some(number) => {
                check_built()?;
                Ok(vec![Place::Gpu(number); count])
            }
            None => Err(configuration(format!("There is no device `{other}` here"))
                .hint("`--device` is `cpu`, `cuda` or `cuda:<number>`")),
        },
    }
}

fn each_gpu(count: usize) -> Result<Vec<Place>, ModelError> {
    check_built()?;
    check_libraries()?;
    let gpus = gpus();
    if gpus == 0 {
        return Err(configuration("There is no GPU here that CUDA can use")
            .hint("`nvidia-smi` shows what the driver sees; `CUDA_VISIBLE_DEVICES` may hide it"));
    }
    if count > gpus {
        return Err(configuration(format!(
            "`data_parallel={count}` wants as many GPUs, and there are {gpus} here"
        ))
        .hint("With `device=cuda:<number>` in `--model_args` one GPU has all of them"));
    }
    Ok((0..count).map(Place::Gpu).collect())
}

fn check_built() -> Result<(), ModelError> {
    if cfg!(feature = "cuda") {
        return Ok(());
    }
    Err(configuration("This binary is built without CUDA")
        .hint("Build one with `scripts/build-cuda`, or leave `--device` out to use the CPU"))
}

/// An error that names the first CUDA library that this machine lacks. Calling into a missing one would panic.
fn check_libraries() -> Result<(), ModelError> {
    match missing_library() {
        None => Ok(()),
        Some(name @ "libcuda") => Err(configuration(format!("The NVIDIA driver is not installed: no {name}.so.1"))
            .hint("Install the driver (`nvidia-smi` then lists the GPUs), or use `--device cpu`")),
        Some(name) => Err(configuration(format!("The CUDA library {name}.so is not installed"))
            .hint("Install the CUDA 13 libraries, and name their folder in LD_LIBRARY_PATH if it is not /usr/local/cuda/lib64")),
    }
}

/// The first CUDA library that cannot be loaded. A binary that is linked with them does not start without them.
#[cfg(all(feature = "cuda", feature = "dynamic-loading"))]
#[expect(unsafe_code, reason = "libraries are loaded")]
fn missing_library() -> Option<&'static str> {
    use candle_core::cuda::cudarc::{cublas, curand, driver};
    // SAFETY: loading runs the initialisers of NVIDIA's own libraries, as linking with them would.
    let found = unsafe {
        [
            ("libcuda", driver::sys::is_culib_present()),
            ("libcublas", cublas::sys::is_culib_present()),
            ("libcurand", curand::sys::is_culib_present()),
        ]
    };
    found.into_iter().find_map(|(name, found)| (!found).then_some(name))
}

#[cfg(not(all(feature = "cuda", feature = "dynamic-loading")))]
fn missing_library() -> Option<&'static str> {
    None
}

/// How many GPUs there are: none without a driver.
#[cfg(feature = "cuda")]
fn gpus() -> usize {
    use candle_core::cuda::cudarc::driver::CudaContext;
    if missing_library() == Some("libcuda") {
        return 0;
    }
    CudaContext::device_count().ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::{Dict, Value};

    use super::*;

    fn of(pairs: &[(&str, Value)]) -> Result<Vec<Place>, ModelError> {
        let args: Dict = pairs.iter().map(|(name, value)| (Value::str(*name), value.clone())).collect();
        places(&ModelSettings::from_args(args))
    }

    #[test]
    fn a_named_device_has_all_workers() {
        let cpu = Value::str("cpu");
        assert_eq!(of(&[("device", cpu.clone())]).unwrap(), [Place::Cpu]);
        assert_eq!(of(&[("device", cpu), ("data_parallel", Value::Int(2))]).unwrap(), [Place::Cpu; 2]);
    }

    #[test]
    fn wrong_places_are_told() {
        for count in [0, 1000, -3] {
            let error = of(&[("data_parallel", Value::Int(count))]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{count}`")), "{error}");
        }
        assert!(of(&[("device", Value::str("tpu"))]).unwrap_err().to_string().contains("`tpu`"));
        if cfg!(not(feature = "cuda")) {
            let error = of(&[("device", Value::str("cuda")), ("data_parallel", Value::Int(2))]).unwrap_err();
            assert!(error.to_string().contains("without CUDA"), "{error}");
        }
    }
}
