//! Errors of Python models.

use lmeval_core::{ModelError, ModelErrorKind};

use crate::error::WorkerError;

/// Converts a worker's error to a model error with traceback and hint.
pub(crate) fn failure(kind: ModelErrorKind, what: &str, error: WorkerError) -> ModelError {
    let message = match &error {
        WorkerError::Died { how, .. } => format!("{what}: its Python process {how}"),
        other => format!("{what}: {other}"),
    };
    let failure = error.hint().into_iter().fold(ModelError::new(kind, message), ModelError::hint);
    match error {
        WorkerError::Raised { traceback: Some(traceback), .. } => failure.with_traceback(traceback),
        WorkerError::Died { output, .. } if !output.is_empty() => failure.with_traceback(output),
        _ => failure,
    }
}
