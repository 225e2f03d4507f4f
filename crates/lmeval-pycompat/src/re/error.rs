//! Errors in patterns and replacement templates, and of matching.

use std::borrow::Cow;
use std::sync::Arc;

/// An error while compiling a pattern, parsing a replacement template, or matching.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe())]
pub struct Error(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    message: String,
    position: Option<usize>,
    source_text: Arc<str>,
}

/// The kind of an [`Error`], which corresponds to a Python exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pattern is invalid: `re.error`, and `ValueError` for mutually exclusive flags.
    Pattern,
    /// A repetition number is too large: `OverflowError`.
    Overflow,
    /// The replacement template is invalid: `re.error`.
    Template,
    /// The replacement template names a group that does not exist: `IndexError`.
    UnknownGroup,
    /// The pattern uses a feature that Python has and this module does not.
    NotSupported,
    /// A match took too many steps; Python would continue, perhaps for years.
    Limit,
}

impl Error {
    pub(super) fn new(
        kind: ErrorKind,
        message: impl Into<String>,
        position: Option<usize>,
        source_text: &str,
    ) -> Self {
        Self(Box::new(Details { kind, message: message.into(), position, source_text: source_text.into() }))
    }

    /// The same error, in a replacement template.
    pub(super) fn in_template(mut self) -> Self {
        if self.0.kind == ErrorKind::Pattern {
            self.0.kind = ErrorKind::Template;
        }
        self
    }

    /// Which Python exception the error corresponds to.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The bare message; the wording differs from Python's.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The position of the error in the pattern or template, in characters.
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// The pattern or, for template errors, the template.
    pub fn source_text(&self) -> &str {
        &self.0.source_text
    }

    fn describe(&self) -> String {
        let Details { kind, message, position, source_text } = &*self.0;
        let subject = match kind {
            ErrorKind::Template | ErrorKind::UnknownGroup => "Invalid replacement template",
            ErrorKind::Limit => "Gave up matching the regular expression",
            ErrorKind::NotSupported => "Unsupported regular expression",
            ErrorKind::Pattern | ErrorKind::Overflow => "Invalid regular expression",
        };
        let source_text = shortened(source_text, 1000);
        match position {
            Some(position) => format!("{subject} `{source_text}`: {message} at position {position}"),
            None => format!("{subject} `{source_text}`: {message}"),
        }
    }
}

/// Truncates a string: a pattern of megabytes would bury the message.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
