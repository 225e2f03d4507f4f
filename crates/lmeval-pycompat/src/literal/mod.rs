//! `ast.literal_eval`.
//!
//! ```
//! use lmeval_pycompat::{literal::literal_eval, repr::repr};
//!
//! let value = literal_eval("{'a': (1, -2.5), 'b': [b'x', None,],}").unwrap();
//! assert_eq!(repr(&value), "{'a': (1, -2.5), 'b': [b'x', None]}");
//! assert!(literal_eval("print('x')").is_err());
//! ```

mod number;
mod parser;
mod text;

use crate::value::Value;

/// The maximum nesting of brackets, as in Python.
pub const MAX_DEPTH: usize = 200;

/// A string that is not a Python literal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: line {line} column {column}")]
pub struct LiteralError {
    /// The error in words, without its position.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// `ast.literal_eval(text)`.
///
/// Unlike Python, it rejects complex numbers, `...` and `\N{name}` in strings, since there is no value or table for
/// them. Surrogates (`'\ud800'`), which a Rust string cannot contain, become U+FFFD.
pub fn literal_eval(text: &str) -> Result<Value, LiteralError> {
    let text = text.trim_start_matches([' ', '\t']);
    // Python's tokenizer sees `\n` as the only line break, inside strings as well.
    let normalized;
    let text = if text.contains('\r') {
        normalized = text.replace("\r\n", "\n").replace('\r', "\n");
        normalized.as_str()
    } else {
        text
    };
    parser::parse(text).map_err(|failure| {
        let before = &text[..text.floor_char_boundary(failure.at)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        LiteralError {
            message: failure.message,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    })
}

/// The start of a string, so that a long one does not bury the message.
fn start(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(end, _)| &text[..end])
}

/// A message and the byte offset that it refers to.
struct Failure {
    message: String,
    at: usize,
}

impl Failure {
    fn new(message: impl Into<String>, at: usize) -> Self {
        Self { message: message.into(), at }
    }
}
