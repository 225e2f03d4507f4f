//! Compiles the CUDA kernels if the feature `cuda` is on.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a source is compiled for.
#[derive(Clone, Copy)]
enum Target {
    /// Every generation from the oldest supported one on: drivers translate PTX for those without machine code.
    Any,
    /// Compute capability 9.0 alone, with the instructions that no other generation has.
    Hopper,
}

/// Sources, and the files to make of them.
const SOURCES: [(&str, &str, Target); 3] = [
    ("src/cuda/kernels.cu", "kernels.fatbin", Target::Any),
    ("src/cuda/expand.cu", "expand.fatbin", Target::Any),
    ("src/cuda/hopper.cu", "hopper.fatbin", Target::Hopper),
];

fn main() -> ExitCode {
    for (source, ..) in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "CUDA_COMPUTE_CAP"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return ExitCode::SUCCESS;
    }
    match SOURCES.into_iter().try_for_each(|(source, file, target)| compile(source, file, target)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn compile(source: &str, file: &str, target: Target) -> Result<(), String> {
    let file = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join(file);
    let nvcc = nvcc();
    let oldest = env::var("CUDA_COMPUTE_CAP").unwrap_or_else(|_| "80".to_owned());
    let mut command = Command::new(&nvcc);
    command.args(["-fatbin", "-O3", "-std=c++17", source, "-o"]).arg(file);
    match target {
        // Machine code, too, for the generation that most runs use, so that the first of them does not wait for the driver.
        Target::Any => {
            command.arg(format!("-gencode=arch=compute_{oldest},code=compute_{oldest}"));
            command.arg("-gencode=arch=compute_90,code=sm_90");
        }
        Target::Hopper => {
            command.arg("-gencode=arch=compute_90a,code=sm_90a");
        }
    }
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
