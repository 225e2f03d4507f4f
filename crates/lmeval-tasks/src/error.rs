//! Errors in task definitions, with their locations.

use std::error::Error as StdError;
use std::fmt;

use lmeval_core::Diagnose;
pub use lmeval_core::{Diagnostic, Location};
use lmeval_scoring::HostError;

/// The kind of an error; each corresponds to the Python exception that the reference raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read (`OSError`).
    Io,
    /// A file is not valid YAML (`YAMLError`).
    Yaml,
    /// Nothing has this name (`KeyError`).
    UnknownName,
    /// An unknown key, or a value of the wrong type (`TypeError`).
    Type,
    /// A value of the right type that is out of range or contradicts another (`ValueError`).
    Value,
    /// A file that includes itself, or a group that contains itself (`ValueError`, `RecursionError`).
    Cycle,
}

/// An error while reading, typing or building a task definition.
#[derive(Clone, Debug)]
pub struct Error(Box<(ErrorKind, Diagnostic)>);

impl Error {
    /// An error without a location or hints yet.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new((kind, Diagnostic::new(message))))
    }

    fn with(mut self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        self.0.1 = change(self.0.1);
        self
    }

    /// Adds the location, unless there already is one: the innermost location is the most exact.
    pub fn at(self, location: Option<Location>) -> Self {
        self.with(|diagnostic| diagnostic.at(location))
    }

    /// Adds a hint about what to try.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint(hint))
    }

    /// Adds a `did you mean` hint if there are similar names.
    pub fn did_you_mean(self, names: &[&str]) -> Self {
        self.with(|diagnostic| diagnostic.did_you_mean(names))
    }

    /// Attaches a cause whose message is already part of this one.
    pub fn including_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|diagnostic| diagnostic.including_cause(cause))
    }

    /// Which Python exception the error corresponds to.
    pub fn kind(&self) -> ErrorKind {
        self.0.0
    }

    /// Borrows the message, location and hints.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.0.1
    }

    /// Unwraps the message, location and hints.
    pub fn into_diagnostic(self) -> Diagnostic {
        self.0.1
    }

    /// The error in one sentence, without location and hints.
    pub fn message(&self) -> &str {
        &self.0.1.message
    }

    /// Suggestions about what to try.
    pub fn hints(&self) -> &[String] {
        &self.0.1.hints
    }

    /// Where in a file the error is, if known.
    pub fn location(&self) -> Option<&Location> {
        self.0.1.location.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.1.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.1.source()
    }
}

impl Diagnose for Error {
    fn headline(&self) -> String {
        self.0.1.headline()
    }

    fn locations(&self) -> Vec<Location> {
        self.0.1.locations()
    }

    fn hints(&self) -> Vec<String> {
        self.0.1.hints.clone()
    }

    fn traceback(&self) -> Option<&str> {
        HostError::find(self.0.1.cause()?)?.traceback()
    }
}
