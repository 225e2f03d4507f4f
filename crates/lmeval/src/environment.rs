//! The environment variables that an evaluation reads, besides those of model servers and of the hub.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lmeval_core::{Diagnostic, Dialect};
use lmeval_engine::{DataOptions, EngineError};
use lmeval_host::PythonOptions;

/// The release line whose rules apply unless the caller names one; wins over a settings file.
pub const LM_EVAL_COMPAT: &str = "LM_EVAL_COMPAT";

/// A folder with local copies of datasets: `<folder>/<dataset_path>` is used if it exists.
const LM_EVAL_DATASET_DIR: &str = "LM_EVAL_DATASET_DIR";

/// The maximum number of rows read from each split; ignored unless it consists of digits.
const LMEVAL_LIMIT: &str = "LMEVAL_LIMIT";

/// The number of Python worker processes; the number of cores by default.
const LM_EVAL_PYTHON_WORKERS: &str = "LM_EVAL_PYTHON_WORKERS";

/// The time limit in seconds for one call of a task function; 600 by default.
const LM_EVAL_PYTHON_TIMEOUT: &str = "LM_EVAL_PYTHON_TIMEOUT";

/// The address space limit of each Python worker in MiB; unlimited by default.
const LM_EVAL_PYTHON_MEMORY: &str = "LM_EVAL_PYTHON_MEMORY";

/// The rules of the release line in `LM_EVAL_COMPAT`; those of 0.5 if it is unset.
pub fn dialect() -> Result<Dialect, EngineError> {
    match env::var(LM_EVAL_COMPAT).ok().filter(|name| !name.is_empty()) {
        None => Ok(Dialect::default()),
        Some(name) => {
            Ok(name.parse().map_err(|error| Diagnostic::new(format!("`{LM_EVAL_COMPAT}`: {error}")))?)
        }
    }
}

/// Where documents come from, by `LM_EVAL_DATASET_DIR` and `LMEVAL_LIMIT`.
pub fn data_options() -> DataOptions {
    let limit = env::var(LMEVAL_LIMIT).ok();
    let limit = limit.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    DataOptions {
        dataset_dir: env::var_os(LM_EVAL_DATASET_DIR).map(PathBuf::from),
        limit_rows: limit.and_then(|text| text.parse().ok()),
        ..DataOptions::default()
    }
}

/// Options for running the Python functions of tasks below these roots, within the limits of the `LM_EVAL_PYTHON_` variables.
pub fn python_options(
    python: Option<&Path>,
    plugins: &[String],
    roots: &[PathBuf],
) -> Result<PythonOptions, EngineError> {
    let mut options = PythonOptions {
        python: python.map(Path::to_owned),
        plugins: plugins.to_vec(),
        // The built-in library is not a folder and has no Python modules.
        task_roots: roots.iter().filter(|root| root.is_dir()).cloned().collect(),
        ..PythonOptions::from_environment()
    };
    if let Some(workers) = number(LM_EVAL_PYTHON_WORKERS)? {
        options.workers = usize::try_from(workers).unwrap_or(usize::MAX);
    }
    if let Some(seconds) = number(LM_EVAL_PYTHON_TIMEOUT)? {
        options.time_limit = Duration::from_secs(seconds);
    }
    if let Some(mebibytes) = number(LM_EVAL_PYTHON_MEMORY)? {
        options.memory_limit = Some(mebibytes.saturating_mul(1 << 20));
    }
    Ok(options)
}

/// The value of a variable that must be a positive integer.
fn number(variable: &str) -> Result<Option<u64>, EngineError> {
    let Ok(value) = env::var(variable) else { return Ok(None) };
    match value.parse() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => {
            let message = format!("`{variable}` must be a positive integer, not `{value}`");
            Err(Diagnostic::new(message).into())
        }
    }
}
