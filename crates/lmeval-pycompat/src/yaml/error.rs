//! Errors while reading YAML.

use std::fmt;

use super::Position;

/// The step that failed, named after PyYAML's exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not characters that YAML allows.
    Reader,
    /// The characters do not form YAML tokens.
    Scanner,
    /// The tokens are in an invalid order.
    Parser,
    /// An invalid anchor, alias or number of documents.
    Composer,
    /// A node cannot become a value: unknown tag, unhashable key, wrong merge.
    Constructor,
    /// A scalar has the form of a type but no valid value, as in `2020-13-45`.
    Value,
    /// The document is larger or deeper than the limits allow.
    Limit,
}

/// An error while loading a document, with its position.
///
/// The message starts with the position and has no file name, which the caller adds:
///
/// ```
/// use lmeval_pycompat::yaml;
///
/// let error = yaml::load("a: [1, 2\nb: 3\n").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 2, column 2: expected `,` or `]` in a flow sequence that begins at line 1, column 4"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    message: String,
    position: Position,
    context: Option<(&'static str, Position)>,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>, position: Position) -> Self {
        Self(Box::new(Details { kind, message: message.into(), position, context: None }))
    }

    /// Adds the enclosing construct, and where it started.
    pub(super) fn during(mut self, context: &'static str, position: Position) -> Self {
        self.0.context = Some((context, position));
        self
    }

    /// The step that failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The error in words, without its position.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The position of the error.
    pub fn position(&self) -> Position {
        self.0.position
    }

    /// The enclosing construct (`in a flow sequence`), and where it started.
    pub fn context(&self) -> Option<(&'static str, Position)> {
        self.0.context
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &*self.0;
        write!(f, "{}: {}", details.position, details.message)?;
        if let Some((context, position)) = details.context {
            write!(f, " {context} that begins at {position}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
