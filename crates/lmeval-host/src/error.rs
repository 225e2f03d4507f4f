//! Errors of workers.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::{HostError, display_reference};

use crate::protocol::ProtocolError;

/// The reason that a worker did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error("Cannot start Python `{python}`: {source}")]
    Start { python: String, source: io::Error },
    #[error("Python 3.10 or newer is required, but `{python}` is older ({output})")]
    TooOld { python: String, output: String },
    #[error("{kind}{}{message}", if message.is_empty() { "" } else { ": " })]
    Raised { kind: String, message: String, traceback: Option<String>, missing: Option<String> },
    #[error("Python {how}")]
    Died { how: String, output: String },
    #[error("Timed out: no answer within {} seconds", limit.as_secs_f64())]
    TimedOut { limit: Duration },
    #[error("Not called because `{culprit}` did not answer within {} seconds", limit.as_secs_f64())]
    Abandoned { culprit: String, limit: Duration },
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

impl WorkerError {
    /// Whether the worker is still usable.
    pub(crate) fn leaves_worker_usable(&self) -> bool {
        matches!(self, Self::Raised { .. } | Self::Protocol(ProtocolError::Depth))
    }

    /// Whether Python could not be started at all.
    pub(crate) fn is_missing_python(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::TooOld { .. })
    }

    /// Converts an answer that reports an exception.
    pub(crate) fn raised(answer: &Dict) -> Self {
        let text = |name: &str| answer.get_str(name).and_then(Value::as_str).map(str::to_owned);
        Self::Raised {
            kind: text("type").unwrap_or_default(),
            message: text("message").unwrap_or_default(),
            traceback: text("traceback"),
            missing: text("missing"),
        }
    }

    /// Advice on fixing the problem, if there is any.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Start { .. } | Self::TooOld { .. } => {
                Some("Select an interpreter with `--python`".to_owned())
            }
            Self::Raised { missing: Some(package), .. } => Some(format!(
                "Install it with `python -m pip install {package}`, or select an interpreter that has it with `--python`"
            )),
            _ => None,
        }
    }

    /// Converts to the error of a function, with the document that it was called on.
    pub(crate) fn of(self, function: &Function, document: Option<&Dict>) -> HostError {
        if let Self::Abandoned { culprit, limit } = self {
            let function = display_reference(&function.reference);
            return HostError::Abandoned { function, culprit, seconds: limit.as_secs_f64() };
        }
        let (mut message, hint) = (self.to_string(), self.hint());
        if let Some(document) = document {
            let _ = write!(message, " (document {})", excerpt(document));
        }
        let traceback = match self {
            Self::Raised { traceback, .. } => traceback,
            Self::Died { output, .. } => Some(output).filter(|output| !output.is_empty()),
            _ => None,
        };
        HostError::Failed { function: display_reference(&function.reference), message, traceback, hint }
    }
}

/// A prefix of the document, enough to identify it.
fn excerpt(document: &Dict) -> String {
    const MAX_LENGTH: usize = 200;
    let mut text = lmeval_pycompat::repr::repr(&Value::from(document.clone()));
    if text.len() > MAX_LENGTH {
        text.truncate(text.floor_char_boundary(MAX_LENGTH));
        text.push('…');
    }
    text
}
