//! What can go wrong with a pattern, a replacement template or a match.

use std::borrow::Cow;
use std::sync::Arc;

/// A failure to compile a pattern, to read a replacement template, or to finish a match.
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

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pattern is not valid: `re.error`, and `ValueError` for flags that exclude each other.
    Pattern,
    /// A repetition number is too large: `OverflowError`.
    Overflow,
    /// The replacement template is not valid: `re.error`.
    Template,
    /// The replacement template names a group that does not exist: `IndexError`.
    UnknownGroup,
    /// The pattern uses something that Python accepts and this module does not.
    NotSupported,
    /// A match was given up because it took too many steps; Python would go on, perhaps for years.
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

    /// The same failure, of a replacement template.
    pub(super) fn in_template(mut self) -> Self {
        if self.0.kind == ErrorKind::Pattern {
            self.0.kind = ErrorKind::Template;
        }
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The bare message, in our words; Python's differ.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the pattern or template the failure is, counted in characters.
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// The pattern or, for failures of a template, the template.
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

/// A text, or the start of a long one: a pattern of megabytes would bury the message.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
