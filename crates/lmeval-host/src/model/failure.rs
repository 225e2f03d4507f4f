//! Errors of Python models.

use lmeval_core::{ModelError, ModelErrorKind};

use crate::error::WorkerError;

/// Converts a worker's error to a model error with traceback and hints.
pub(crate) fn failure(kind: ModelErrorKind, what: &str, error: WorkerError) -> ModelError {
    let message = match &error {
        WorkerError::Died { how, .. } => format!("{what}: its Python process {how}"),
        other => format!("{what}: {other}"),
    };
    let failure = ModelError::new(kind, message);
    match error {
        WorkerError::Raised { traceback, missing, .. } => {
            let failure = match missing {
                Some(package) => failure.hint(format!(
                    "Install it with `python -m pip install {package}`, or name a Python that has it with `--python`"
                )),
                None => failure,
            };
            match traceback {
                Some(traceback) => failure.with_traceback(traceback),
                None => failure,
            }
        }
        WorkerError::Died { output, .. } if !output.is_empty() => failure.with_traceback(output),
        _ => failure,
    }
}
