//! Devices to compute on.

use std::fmt;
use std::path::Path;

use candle_core::Device;
use lmeval_core::{ModelError, ModelSettings};

use crate::arguments::{configuration, non_negative, unsupported};

/// The maximum of `data_parallel`.
const MAX_WORKERS: usize = 256;

/// A device that is not open yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeviceSpec {
    #[default]
    Cpu,
    /// An NVIDIA GPU by index.
    Gpu(usize),
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl DeviceSpec {
    /// Opens the device.
    pub(crate) fn open(self) -> Result<Device, ModelError> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Gpu(index) => {
                check_libraries()?;
                Device::new_cuda(index)
                    .map_err(|error| configuration(format!("Cannot open the device `{self}`: {error}")))
            }
        }
    }
}

/// The devices of a model, one per worker of `data_parallel`.
///
/// All workers share a device that is given with its index. Otherwise each worker gets its own GPU.
pub(crate) fn devices(settings: &ModelSettings) -> Result<Vec<DeviceSpec>, ModelError> {
    let count = match non_negative(settings, "data_parallel")? {
        None => 1,
        Some(count) if (1..=MAX_WORKERS).contains(&count) => count,
        Some(count) => {
            return Err(configuration(format!(
                "The model argument `data_parallel` must be from 1 to {MAX_WORKERS}, not `{count}`"
            )));
        }
    };
    let name = settings.text("device").or_else(|| settings.device.clone());
    match name.as_deref() {
        None if gpus() == 0 => Ok(vec![DeviceSpec::Cpu; count]),
        None | Some("cuda") => each_gpu(count),
        Some("cpu") => Ok(vec![DeviceSpec::Cpu; count]),
        Some(other) => match other.strip_prefix("cuda:").and_then(|index| index.parse().ok()) {
            Some(index) => {
                check_built()?;
                Ok(vec![DeviceSpec::Gpu(index); count])
            }
            None => Err(unsupported(format!("The native engine does not run on the device `{other}`"))
                .hint("`--device` is `cpu`, `cuda` or `cuda:<index>`")),
        },
    }
}

fn each_gpu(count: usize) -> Result<Vec<DeviceSpec>, ModelError> {
    check_built()?;
    check_libraries()?;
    let gpus = gpus();
    if gpus == 0 {
        return Err(configuration("CUDA found no GPU")
            .hint("`nvidia-smi` lists the GPUs the driver sees; `CUDA_VISIBLE_DEVICES` may hide them"));
    }
    if count > gpus {
        return Err(configuration(format!(
            "`data_parallel={count}` needs {count} GPUs, but this machine has {gpus}"
        ))
        .hint("To run all workers on one GPU, set `device=cuda:<index>` in `--model_args`"));
    }
    Ok((0..count).map(DeviceSpec::Gpu).collect())
}

fn check_built() -> Result<(), ModelError> {
    if cfg!(feature = "cuda") {
        return Ok(());
    }
    Err(unsupported("This build of `lm-eval` has no CUDA")
        .hint(OTHER_BUILDS)
        .hint("Omit `--device` to use the CPU"))
}

/// How to compute on a GPU, for those who installed the package as well as for those who have the source.
const OTHER_BUILDS: &str = "In Python, `HFLM(pretrained=…)` computes on the GPU with torch; `scripts/build-cuda` in a copy of the source makes \
                            a binary for GPUs, which the package uses if `LM_EVAL_BINARY` is its path";

/// The warning for a machine whose GPU is not used.
pub(crate) fn unused_gpu() -> String {
    format!(
        "This machine has an NVIDIA GPU, but this build of `lm-eval` has no CUDA, so the model runs on the CPU. {OTHER_BUILDS}. \
         `--device cpu` chooses the CPU without this warning"
    )
}

/// Whether the machine has a GPU that this build cannot use, although no device was chosen.
pub(crate) fn ignores_gpu(settings: &ModelSettings) -> bool {
    let is_chosen = settings.get("device").is_some() || settings.device.is_some();
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    cfg!(not(feature = "cuda")) && !is_chosen && has_gpu(Path::new("/"), visible.as_deref())
}

/// Whether the NVIDIA driver lists a GPU that is not hidden.
fn has_gpu(root: &Path, visible: Option<&str>) -> bool {
    let is_hidden = visible.is_some_and(|visible| matches!(visible.trim(), "" | "-1" | "NoDevFiles"));
    let listed = fs_err::read_dir(root.join("proc/driver/nvidia/gpus"));
    !is_hidden && listed.is_ok_and(|mut gpus| gpus.next().is_some())
}

/// Fails if a CUDA library is not installed. Calling into a missing library would panic.
fn check_libraries() -> Result<(), ModelError> {
    match missing_library() {
        None => Ok(()),
        Some(name @ "libcuda") => Err(configuration(format!("The NVIDIA driver is not installed: no {name}.so.1"))
            .hint("Install the driver (`nvidia-smi` then lists the GPUs), or use `--device cpu`")),
        Some(name) => Err(configuration(format!("The CUDA library {name}.so is not installed"))
            .hint("Install the CUDA 13 libraries, and add their folder to LD_LIBRARY_PATH if it is not /usr/local/cuda/lib64")),
    }
}

/// The first CUDA library that cannot be loaded. A binary linked against them does not start without them.
#[cfg(all(feature = "cuda", feature = "dynamic-loading"))]
#[expect(unsafe_code, reason = "checks for dynamic libraries by loading them")]
fn missing_library() -> Option<&'static str> {
    use candle_core::cuda::cudarc::{cublas, curand, driver};
    // SAFETY: loading runs the initialisers of NVIDIA's libraries, like linking against them would.
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

/// The number of GPUs; 0 without a driver.
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

    fn read(pairs: &[(&str, Value)]) -> Result<Vec<DeviceSpec>, ModelError> {
        let args: Dict = pairs.iter().map(|(name, value)| (Value::str(*name), value.clone())).collect();
        devices(&ModelSettings::from_args(args))
    }

    #[test]
    fn workers_share_a_named_device() {
        let cpu = Value::str("cpu");
        assert_eq!(read(&[("device", cpu.clone())]).unwrap(), [DeviceSpec::Cpu]);
        assert_eq!(read(&[("device", cpu), ("data_parallel", Value::Int(2))]).unwrap(), [DeviceSpec::Cpu; 2]);
    }

    #[test]
    fn refuses_invalid_devices() {
        for count in [0, 1000, -3] {
            let error = read(&[("data_parallel", Value::Int(count))]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{count}`")), "{error}");
        }
        assert!(read(&[("device", Value::str("tpu"))]).unwrap_err().to_string().contains("`tpu`"));
        if cfg!(not(feature = "cuda")) {
            let error =
                read(&[("device", Value::str("cuda")), ("data_parallel", Value::Int(2))]).unwrap_err();
            assert!(error.to_string().contains("has no CUDA"), "{error}");
        }
    }

    #[test]
    fn notices_a_gpu_unless_it_is_hidden() {
        let root = tempfile::tempdir().unwrap();
        assert!(!has_gpu(root.path(), None));
        let gpus = root.path().join("proc/driver/nvidia/gpus");
        fs_err::create_dir_all(&gpus).unwrap();
        assert!(!has_gpu(root.path(), None));
        fs_err::create_dir(gpus.join("0000:01:00.0")).unwrap();
        assert!(has_gpu(root.path(), None) && has_gpu(root.path(), Some("0")));
        assert!(!has_gpu(root.path(), Some("")) && !has_gpu(root.path(), Some("-1")));
        let text = unused_gpu();
        assert!(
            text.contains("HFLM") && text.contains("LM_EVAL_BINARY") && text.contains("--device cpu"),
            "{text}"
        );
    }
}
