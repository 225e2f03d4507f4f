//! Compiles the CUDA kernels if the feature `cuda` is on.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Sources, and the PTX files to make of them.
const SOURCES: [(&str, &str); 2] =
    [("src/cuda/kernels.cu", "kernels.ptx"), ("src/cuda/expand.cu", "expand.ptx")];

fn main() -> ExitCode {
    for (source, _) in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return ExitCode::SUCCESS;
    }
    match SOURCES.iter().try_for_each(|(source, target)| compile(source, target)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn compile(source: &str, target: &str) -> Result<(), String> {
    let target = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join(target);
    let nvcc = nvcc();
    // The oldest supported generation; drivers translate PTX for newer ones.
    let generation = env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| "80".to_owned());
    let mut command = Command::new(&nvcc);
    command.args(["-ptx", "-O3", "-std=c++17", source, "-o"]).arg(target);
    command.arg(format!("-arch=compute_{generation}"));
    let status = command
        .status()
        .map_err(|error| format!("cannot start {}: {error}; set NVCC or CUDA_HOME", nvcc.display()))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed for {source}: {status}", nvcc.display())) }
}

fn nvcc() -> PathBuf {
    if let Some(nvcc) = env::var_os("NVCC") {
        return nvcc.into();
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os);
    let found = homes.map(|home| Path::new(&home).join("bin/nvcc")).find(|nvcc| nvcc.is_file());
    found.unwrap_or_else(|| "nvcc".into())
}
