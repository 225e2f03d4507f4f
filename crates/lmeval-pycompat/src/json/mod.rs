//! `json.dumps` and `json.loads`.
//!
//! ```
//! use lmeval_pycompat::{Value, json};
//!
//! let value = json::loads(r#"{"a": [1, 2.50, NaN], "é": null}"#).unwrap();
//! assert_eq!(json::dumps(&value, &json::Options::default()).unwrap(), r#"{"a": [1, 2.5, NaN], "\u00e9": null}"#);
//! ```

mod read;
mod write;

pub use read::{DecodeError, Decoder, loads};
pub use write::{DefaultHook, EncodeError, Options, dumps, write};

/// The deepest nesting that is read or written, close to Python's recursion limit.
pub const MAX_DEPTH: usize = 994;
