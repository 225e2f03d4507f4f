//! What can go wrong with a worker.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use lmeval_core::{HostError, display_reference};
use lmeval_pycompat::{Dict, Function, Value};

use crate::protocol::ProtocolError;

/// Why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error("Cannot start Python `{python}`: {source}; name an interpreter with `--python`")]
    Start { python: String, source: io::Error },
    #[error("Python 3.10 or newer is needed, and `{python}` is older ({said}); name another with `--python`")]
    TooOld { python: String, said: String },
    #[error("{kind}{}{message}", if message.is_empty() { "" } else { ": " })]
    Raised { kind: String, message: String, traceback: Option<String>, missing: Option<String> },
    #[error("Python {how}")]
    Died { how: String, said: String },
    #[error("There was no answer within {} seconds", limit.as_secs_f64())]
    TimedOut { limit: Duration },
    #[error("It was not called, because `{culprit}` gave no answer within {} seconds", limit.as_secs_f64())]
    Abandoned { culprit: String, limit: Duration },
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

impl WorkerError {
    /// Whether the worker can still be used.
    pub(crate) fn is_survived(&self) -> bool {
        matches!(self, Self::Raised { .. } | Self::Protocol(ProtocolError::Depth))
    }

    /// Whether there is no Python that could be asked.
    pub(crate) fn is_without_python(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::TooOld { .. })
    }

    /// The error of an answer that tells of a failure.
    pub(crate) fn raised(told: &Dict) -> Self {
        let text = |name: &str| told.get_str(name).and_then(Value::as_str).map(str::to_owned);
        Self::Raised {
            kind: text("type").unwrap_or_default(),
            message: text("message").unwrap_or_default(),
            traceback: text("traceback"),
            missing: text("missing"),
        }
    }

    /// The error of a function, with the document that it was called with.
    pub(crate) fn of(self, function: &Function, document: Option<&Dict>) -> HostError {
        if let Self::Abandoned { culprit, limit } = self {
            let function = display_reference(&function.reference);
            return HostError::Abandoned { function, culprit, seconds: limit.as_secs_f64() };
        }
        let mut message = self.to_string();
        if let Self::Raised { missing: Some(package), .. } = &self {
            let _ = write!(message, "; install the Python package `{package}` to run this task");
        }
        if let Some(document) = document {
            let _ = write!(message, " (document {})", excerpt(document));
        }
        let traceback = match self {
            Self::Raised { traceback, .. } => traceback,
            Self::Died { said, .. } => Some(said).filter(|said| !said.is_empty()),
            _ => None,
        };
        HostError::Failed { function: display_reference(&function.reference), message, traceback }
    }
}

/// The start of a document, enough to find it.
fn excerpt(document: &Dict) -> String {
    const LONGEST: usize = 200;
    let mut text = lmeval_pycompat::repr::repr(&Value::from(document.clone()));
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}
