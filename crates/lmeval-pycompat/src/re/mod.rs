//! Python's `re` for string patterns, with the results of CPython 3.11.
//!
//! A pattern is parsed by the rules of the `re` documentation; errors have Python's kinds and positions. It is then run
//! by one of two matchers: the `regex` crate, if it gives the same results and enough is searched to pay for compiling
//! it, otherwise a backtracking matcher. The choice never affects a result.
//!
//! ```
//! use lmeval_pycompat::re::{Flags, Regex};
//!
//! let regex = Regex::new(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", Flags::NONE)?;
//! let found = regex.search("costs $1,200")?.expect("there is a number");
//! assert_eq!(found.group(0), Some("$1,200"));
//! assert_eq!(Regex::new(r"\.$", Flags::NONE)?.sub("", "end.\n", 0)?, "end\n");
//! # Ok::<(), lmeval_pycompat::re::Error>(())
//! ```
//!
//! # Differences from CPython
//!
//! - Rejected with [`ErrorKind::NotSupported`]: the escape `\N{NAME}`; groups nested more than 200 deep and patterns of
//!   more than a million items; a possessive repeat with groups inside alternatives, repeats or lookaround, such as
//!   `(?:(a)|b)*+`, and a conditional inside the group that it tests, such as `((?(1)a|b))*`, where CPython's own
//!   results depend on failed attempts.
//! - A match that takes too many steps fails with [`ErrorKind::Limit`] after about a second.
//! - Warnings (possible nested sets, odd group numbers) are not issued.
//! - Messages are worded differently.
//! - Byte patterns, `re.LOCALE` and `re.DEBUG` do not exist.

mod ast;
mod backslash;
mod charset;
mod cursor;
mod error;
mod fast;
mod flags;
mod grammar;
mod local;
mod machine;
mod matches;
mod name;
mod paren;
mod pattern;
mod problem;
mod program;
mod quantifier;
mod replace;
mod replacement;
mod runs;
mod set;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod unicode;

pub use error::{Error, ErrorKind};
pub use flags::Flags;
pub use matches::Match;
pub use pattern::{Nth, Regex, escape};
