//! Errors of models.

use std::fmt;
use std::sync::Arc;

use crate::diagnostic::Diagnose;

/// The category of a model error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// A model argument is invalid, or something the model needs is missing.
    Configuration,
    /// The model's files exist neither locally nor on the hub, or cannot be downloaded.
    Missing,
    /// The model does not support this kind of request, or what would compute it does not support the model.
    Unsupported,
    /// The credentials are missing or were rejected.
    Authentication,
    /// The server, as configured, cannot provide what the task needs.
    Capability,
    /// The request itself was rejected.
    Request,
    /// The model was unreachable or failed, after all retries.
    Unreachable,
    /// The response is not a valid answer.
    Answer,
}

impl ModelErrorKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Configuration,
        Self::Missing,
        Self::Unsupported,
        Self::Authentication,
        Self::Capability,
        Self::Request,
        Self::Unreachable,
        Self::Answer,
    ];

    /// The name of the kind in messages between processes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Missing => "missing",
            Self::Unsupported => "unsupported",
            Self::Authentication => "authentication",
            Self::Capability => "capability",
            Self::Request => "request",
            Self::Unreachable => "unreachable",
            Self::Answer => "answer",
        }
    }

    /// The kind with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The error of a request that was not answered.
#[derive(Clone, Debug)]
pub struct ModelError {
    kind: ModelErrorKind,
    message: String,
    hints: Vec<String>,
    traceback: Option<Arc<str>>,
    /// The request or requests that the message names.
    subject: Option<Arc<str>>,
}

impl ModelError {
    /// An error with a message: a sentence without a full stop.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new(), traceback: None, subject: None }
    }

    /// Adds a suggestion for fixing the problem.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Attaches a Python traceback.
    pub fn with_traceback(mut self, traceback: impl Into<Arc<str>>) -> Self {
        self.traceback = Some(traceback.into());
        self
    }

    /// States which request the message names: one of those that were sent together.
    pub fn about(mut self, subject: &str) -> Self {
        if !subject.is_empty() && self.message.contains(subject) {
            self.subject = Some(subject.into());
        }
        self
    }

    /// The message for a list that names the request itself.
    pub fn message_for_request(&self) -> String {
        let Some(subject) = &self.subject else { return self.message.clone() };
        match self.message.strip_prefix(&**subject) {
            Some(rest) => format!("The request{rest}"),
            None => self.message.replace(&**subject, "the request"),
        }
    }

    /// The category of the error.
    pub fn kind(&self) -> ModelErrorKind {
        self.kind
    }

    /// Whether every other request would fail in the same way, so the run must stop.
    pub fn is_fatal(&self) -> bool {
        use ModelErrorKind::{Authentication, Capability, Configuration, Missing, Unsupported};
        matches!(self.kind, Configuration | Missing | Unsupported | Authentication | Capability)
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

impl Diagnose for ModelError {
    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }

    fn traceback(&self) -> Option<&str> {
        self.traceback.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_for_lists_do_not_name_the_request() {
        let about = "`task`, document 7, generate_until 0";
        let error = |message: &str| ModelError::new(ModelErrorKind::Request, message).about(about);
        for (message, expected) in [
            ("`task`, document 7, generate_until 0 was not answered", "The request was not answered"),
            ("`u` refused `task`, document 7, generate_until 0: 400: no", "`u` refused the request: 400: no"),
            ("The answer is not JSON", "The answer is not JSON"),
        ] {
            assert_eq!(error(message).message_for_request(), expected);
            assert_eq!(error(message).to_string(), message);
        }
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        for kind in ModelErrorKind::ALL {
            assert_eq!(ModelErrorKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(ModelErrorKind::from_name("other"), None);
    }
}
