//! Names and numbers of groups, as groups, references, conditionals and replacement templates give them.
//!
//! A name is a Python identifier. Where a number may stand instead, it is whatever `int()` reads, so that ` 1 ` and
//! digits of other scripts count. See the entries `(?P<name>…)`, `(?P=name)` and `(?(id/name)yes|no)` in "Regular
//! Expression Syntax" and the description of `sub` in the `re` documentation.

use super::cursor::Cursor;
use super::error::Error;
use super::problem::{Problem, quoted};
use super::unicode::{digit_value, is_identifier};

/// More digits than this are no number to `int()`.
const MOST_DIGITS: usize = 4300;

/// What something refers to a group by.
pub(super) enum Label<'p> {
    /// Its name.
    Name(&'p str),
    /// Its number, saturated, and how it is written.
    Number(u64, &'p str),
}

/// Reads up to a closing character: a name or a number.
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

/// Reads up to a closing character: a name.
pub(super) fn name<'p>(cursor: &mut Cursor<'p>, closing: char) -> Result<&'p str, Error> {
    let position = cursor.index();
    let written = delimited(cursor, closing)?;
    match is_identifier(written) {
        true => Ok(written),
        false => Err(cursor.error(position, Problem::BadName(quoted(written)))),
    }
}

fn delimited<'p>(cursor: &mut Cursor<'p>, closing: char) -> Result<&'p str, Error> {
    let position = cursor.index();
    match cursor.take_until(closing) {
        Some("") => Err(cursor.error(position, Problem::EmptyName)),
        Some(written) => Ok(written),
        None if position == cursor.index() => Err(cursor.error(position, Problem::EmptyName)),
        None => Err(cursor.error(position, Problem::UnclosedName(closing))),
    }
}

/// The number that `int()` reads, if it is not negative.
fn number(written: &str) -> Option<u64> {
    let trimmed = written.trim_matches(crate::strings::is_space);
    let (negative, digits) = match trimmed.strip_prefix(['+', '-']) {
        Some(digits) => (trimmed.starts_with('-'), digits),
        None => (false, trimmed),
    };
    let mut number = 0_u64;
    let mut count = 0;
    let mut after_digit = false;
    for character in digits.chars() {
        if character == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let value = digit_value(character.into())?;
        number = number.saturating_mul(10).saturating_add(value.into());
        count += 1;
        after_digit = true;
    }
    let is_number = after_digit && count <= MOST_DIGITS && !(negative && number > 0);
    is_number.then_some(number)
}
