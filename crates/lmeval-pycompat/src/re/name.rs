//! Names and indices of groups, as written in groups, references, conditionals and replacement templates.
//!
//! A name is a Python identifier. Where an index is allowed instead, it is anything that `int()` accepts, including
//! ` 1 ` and digits of other scripts. See the entries `(?P<name>…)`, `(?P=name)` and `(?(id/name)yes|no)` in "Regular
//! Expression Syntax" and the description of `sub` in the `re` documentation.

use num_bigint::Sign;

use super::cursor::Cursor;
use super::error::Error;
use super::problem::{Problem, quoted};
use super::unicode::is_identifier;
use crate::Value;
use crate::float::parse_int;

/// A reference to a group.
pub(super) enum Label<'p> {
    Name(&'p str),
    /// Its index, saturated, and its source.
    Number(u64, &'p str),
}

/// Parses a name or an index up to a closing character.
pub(super) fn label<'p>(cursor: &mut Cursor<'p>, closing: char) -> Result<Label<'p>, Error> {
    let position = cursor.index();
    let written = delimited(cursor, closing)?;
    if is_identifier(written) {
        return Ok(Label::Name(written));
    }
    match number(written) {
        Some(number) => Ok(Label::Number(number, written.trim())),
        None => Err(cursor.error(position, Problem::BadName(quoted(written)))),
    }
}

/// Parses a name up to a closing character.
pub(super) fn name<'p>(cursor: &mut Cursor<'p>, closing: char) -> Result<&'p str, Error> {
    let position = cursor.index();
    let written = delimited(cursor, closing)?;
    if !is_identifier(written) {
        return Err(cursor.error(position, Problem::BadName(quoted(written))));
    }
    Ok(written)
}

/// The string before a closing character, which must not be empty.
pub(super) fn delimited<'p>(cursor: &mut Cursor<'p>, closing: char) -> Result<&'p str, Error> {
    let position = cursor.index();
    match cursor.take_until(closing) {
        Some("") => Err(cursor.error(position, Problem::EmptyName)),
        Some(written) => Ok(written),
        None if position == cursor.index() => Err(cursor.error(position, Problem::EmptyName)),
        None => Err(cursor.error(position, Problem::Unclosed("name"))),
    }
}

/// The integer that `int()` parses, if it is not negative.
fn number(written: &str) -> Option<u64> {
    match parse_int(written, 10)? {
        Value::Int(number) => u64::try_from(number).ok(),
        Value::BigInt(number) if number.sign() == Sign::Minus => None,
        _ => Some(u64::MAX),
    }
}
