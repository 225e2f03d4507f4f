//! What can go wrong while reading YAML.

use std::fmt;

use super::Position;

/// The step that failed, named after PyYAML's exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not text that YAML allows.
    Reader,
    /// The text is not made of YAML tokens.
    Scanner,
    /// The tokens are not in an order that YAML allows.
    Parser,
    /// Anchors, aliases or the number of documents are wrong.
    Composer,
    /// A node cannot become a value: unknown tag, unhashable key, wrong merge.
    Constructor,
    /// A scalar has the shape of a type but no such value exists, as in `2020-13-45`.
    Value,
    /// The document is larger or deeper than the limits allow.
    Limit,
}

/// A document that could not be loaded, with the place where that became clear.
///
/// The text begins with the place and has no file name, which is the caller's to add:
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

    /// Says what was being read, and where that began.
    pub(super) fn during(mut self, context: &'static str, position: Position) -> Self {
        self.0.context = Some((context, position));
        self
    }

    /// The step that failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where the problem is.
    pub fn position(&self) -> Position {
        self.0.position
    }

    /// What was being read (`in a flow sequence`), and where that began.
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
