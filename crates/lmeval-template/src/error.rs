//! Template errors.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{filters, predicates};

/// Why a template could not be compiled or rendered.
///
/// The message is one line without a position; [`Error::line`] and [`Error::range`] locate it in
/// [`Error::template`], and [`Error::hints`] suggest what to try next.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.inner.message)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hints: Vec<String>,
    range: Option<Range<usize>>,
    line: Option<usize>,
    template: Option<Arc<str>>,
    variable: Option<String>,
}

/// Classifies an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The template does not parse.
    Syntax,
    /// No filter has this name.
    UnknownFilter,
    /// No test has this name.
    UnknownTest,
    /// An undefined value was used.
    Undefined,
    /// An operation got a value of the wrong type.
    Type,
    /// An operation got a value it cannot work with.
    Value,
    /// A number is out of range or a division is by zero.
    Arithmetic,
    /// A statement that needs other templates was executed.
    Unsupported,
    /// A limit on steps, depth or size was reached.
    Limit,
    /// The template itself called `raise_exception`.
    Raised,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Syntax => "syntax error",
            Self::UnknownFilter => "unknown filter",
            Self::UnknownTest => "unknown test",
            Self::Undefined => "undefined value",
            Self::Type => "type error",
            Self::Value => "value error",
            Self::Arithmetic => "arithmetic error",
            Self::Unsupported => "unsupported statement",
            Self::Limit => "limit reached",
            Self::Raised => "raised by the template",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                hints: Vec::new(),
                range: None,
                line: None,
                template: None,
                variable: None,
            }),
        }
    }

    pub(crate) fn type_error(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Type, message)
    }

    pub(crate) fn value_error(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, message)
    }

    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// Sets the position unless an inner expression has already set a narrower one.
    pub(crate) fn or_at(mut self, start: usize, end: usize) -> Self {
        if self.inner.range.is_none() {
            self.inner.range = Some(start..end);
        }
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hints.push(hint.into());
        self
    }

    pub(crate) fn with_variable(mut self, name: &str) -> Self {
        self.inner.variable = Some(name.to_owned());
        self
    }

    /// Attaches the template source, from which the line is computed.
    pub(crate) fn with_template(mut self, template: &Arc<str>) -> Self {
        if self.inner.template.is_none() {
            if let Some(range) = &self.inner.range {
                let before = template.get(..range.start).unwrap_or(template);
                self.inner.line = Some(before.matches('\n').count() + 1);
            }
            self.inner.template = Some(template.clone());
        }
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The message: one line, without a position.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The 1-based line in the template.
    pub fn line(&self) -> Option<usize> {
        self.inner.line
    }

    /// The byte range of [`Error::template`] that caused the failure.
    pub fn range(&self) -> Option<Range<usize>> {
        self.inner.range.clone()
    }

    /// The template source, with line endings normalized to `\n`.
    pub fn template(&self) -> Option<&str> {
        self.inner.template.as_deref()
    }

    /// The undefined variable, if that is the failure.
    pub fn variable(&self) -> Option<&str> {
        self.inner.variable.as_deref()
    }

    /// Suggestions, one sentence each.
    pub fn hints(&self) -> &[String] {
        &self.inner.hints
    }
}

/// The error for an unknown filter or test, with the nearest known names.
pub(crate) fn unknown_name(kind: ErrorKind, name: &str, chat: bool) -> Error {
    if let Some(refusal) = (kind == ErrorKind::UnknownFilter).then(|| filters::refusal(name, chat)).flatten()
    {
        return refusal;
    }
    let (what, hint) = match kind {
        ErrorKind::UnknownFilter => ("filter", nearest(name, filters::names(chat))),
        _ => ("test", nearest(name, predicates::names())),
    };
    let error = Error::new(kind, format!("Unknown {what} `{name}`"));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// A hint with the known names nearest to `name`, if any.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2.min(candidate.len() / 2).max(1))
        .collect();
    near.sort_unstable();
    let names: Vec<String> = near.iter().take(3).map(|(_, candidate)| format!("`{candidate}`")).collect();
    (!names.is_empty()).then(|| format!("Did you mean {}?", names.join(" or ")))
}
