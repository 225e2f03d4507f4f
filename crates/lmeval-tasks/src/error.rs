//! What goes wrong with a task definition, and where.

use std::error::Error as StdError;
use std::fmt;

use lmeval_core::{Diagnose, HostError};
pub use lmeval_core::{Diagnostic, Location};

/// The kind of a failure; each has the Python exception that the reference raises in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read (`OSError`).
    Io,
    /// A file is no valid YAML (`YAMLError`).
    Yaml,
    /// A name is not known (`KeyError`).
    UnknownName,
    /// A key is not known, or a value has the wrong type (`TypeError`).
    Type,
    /// A value of the right type that makes no sense (`ValueError`).
    Value,
    /// Files include, or groups contain, themselves (`ValueError`, `RecursionError`).
    Cycle,
}

/// A failure to read, type or build a task definition.
#[derive(Clone, Debug)]
pub struct Error(Box<(ErrorKind, Diagnostic)>);

impl Error {
    /// A failure with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new((kind, Diagnostic::new(message))))
    }

    fn with(mut self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        self.0.1 = change(self.0.1);
        self
    }

    /// Adds the place, unless one is known already (the innermost place is the most exact).
    pub fn at(self, location: Option<Location>) -> Self {
        self.with(|diagnostic| diagnostic.at(location))
    }

    /// Adds a sentence of advice.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint(hint))
    }

    /// Adds `did you mean` advice where there are near names.
    pub fn did_you_mean(self, names: &[&str]) -> Self {
        self.with(|diagnostic| diagnostic.did_you_mean(names))
    }

    /// Keeps a cause whose message is part of this one.
    pub fn including_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.with(|diagnostic| diagnostic.including_cause(cause))
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.0
    }

    /// Message, place and advice.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.0.1
    }

    /// Message, place and advice, taken out.
    pub fn into_diagnostic(self) -> Diagnostic {
        self.0.1
    }

    /// The sentence that says what is wrong.
    pub fn message(&self) -> &str {
        &self.0.1.message
    }

    /// The sentences of advice.
    pub fn hints(&self) -> &[String] {
        &self.0.1.hints
    }

    /// The place, where there is one.
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
