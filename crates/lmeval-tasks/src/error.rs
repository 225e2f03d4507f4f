//! What goes wrong with a task definition, and where.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::source::SourceFile;

/// A place in a task file.
#[derive(Clone, Debug)]
pub struct Location {
    /// The file.
    pub file: Arc<SourceFile>,
    /// The byte range of the key or value that is meant.
    pub range: Range<usize>,
    /// The line of the start, counted from 1.
    pub line: usize,
}

impl Location {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path().display(), self.line)
    }
}

/// A message about a task definition, with the place it is about and what to try.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where; `None` for what no file holds, such as an inline mapping.
    pub location: Option<Location>,
    /// What to try, one sentence each.
    pub hints: Vec<String>,
}

impl Diagnostic {
    /// A message without a place or advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), location: None, hints: Vec::new() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        f.write_str(&self.message)
    }
}

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
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    diagnostic: Diagnostic,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, diagnostic: Diagnostic::new(message), source: None }))
    }

    /// Adds the place, unless one is known already (the innermost place is the most exact).
    pub fn at(mut self, location: Option<Location>) -> Self {
        if self.0.diagnostic.location.is_none() {
            self.0.diagnostic.location = location;
        }
        self
    }

    /// Adds a sentence of advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.diagnostic.hints.push(hint.into());
        self
    }

    /// Adds `did you mean` advice where there are near names.
    pub fn did_you_mean(self, names: &[&str]) -> Self {
        if names.is_empty() {
            return self;
        }
        let list: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        self.hint(format!("Did you mean {}?", list.join(" or ")))
    }

    /// Keeps the cause.
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Message, place and advice.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.0.diagnostic
    }

    /// Message, place and advice, taken out.
    pub fn into_diagnostic(self) -> Diagnostic {
        self.0.diagnostic
    }

    /// The sentence that says what is wrong.
    pub fn message(&self) -> &str {
        &self.0.diagnostic.message
    }

    /// The sentences of advice.
    pub fn hints(&self) -> &[String] {
        &self.0.diagnostic.hints
    }

    /// The place, where there is one.
    pub fn location(&self) -> Option<&Location> {
        self.0.diagnostic.location.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.diagnostic.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
