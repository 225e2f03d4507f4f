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

/// The deepest nesting of brackets, as in Python.
pub const MAX_DEPTH: usize = 200;

/// A text that is not a Python literal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: line {line} column {column}")]
pub struct LiteralError {
    /// What is wrong.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// `ast.literal_eval(text)`.
///
/// Refused although Python takes them: complex numbers, `...` and `\N{name}` in strings, as there is no value
/// or table for them. Surrogates (`'\ud800'`), which no Rust string can hold, become U+FFFD.
pub fn literal_eval(text: &str) -> Result<Value, LiteralError> {
    let text = text.trim_start_matches([' ', '\t']);
    // The tokenizer of Python sees lines that end in `\n` only, inside of strings as well.
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

/// The start of a text, for a message that a long one would bury.
fn start(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(end, _)| &text[..end])
}

/// A message and the byte at which it applies.
struct Failure {
    message: String,
    at: usize,
}

impl Failure {
    fn new(message: impl Into<String>, at: usize) -> Self {
        Self { message: message.into(), at }
    }
}
