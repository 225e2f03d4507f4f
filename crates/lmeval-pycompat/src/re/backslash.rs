//! Escapes in patterns.
//!
//! Outside sets an escape can be an anchor, a category, a back-reference or a character; inside sets a category or a
//! character. Unknown escapes of ASCII letters are errors, any other escaped character is literal. See the list of
//! special sequences at the end of "Regular Expression Syntax" in the `re` documentation.

use super::ast::{Anchor, Member, Node, Set};
use super::cursor::Cursor;
use super::error::Error;
use super::grammar::Parser;
use super::name::delimited;
use super::problem::{Problem, quoted};
use super::unicode::Category;

/// The largest character that an octal escape can name.
const MAX_OCTAL: u32 = 0o377;

impl Parser<'_> {
    /// Parses an escape outside sets.
    pub(super) fn escape(&mut self) -> Result<Node, Error> {
        let start = self.cursor;
        self.cursor.step();
        let letter = self.cursor.peek().unwrap_or('\\');
        let anchor = match letter {
            'A' => Some(Anchor::TextStart),
            'Z' => Some(Anchor::TextEnd),
            'b' => Some(Anchor::Boundary),
            'B' => Some(Anchor::NotBoundary),
            _ => None,
        };
        if let Some(anchor) = anchor {
            self.cursor.step();
            return Ok(Node::Anchor(anchor));
        }
        if let Some(member) = category(letter) {
            self.cursor.step();
            return Ok(Node::Set(Box::new(Set { negated: false, members: vec![member] })));
        }
        if letter.is_ascii_digit() {
            return match digits(&mut self.cursor, start)? {
                Digits::Character(code) => Ok(Node::Character(code)),
                Digits::Group(group) => self.numbered_reference(start, group),
            };
        }
        character(&mut self.cursor, start).map(Node::Character)
    }

    /// Parses an escape inside a set.
    pub(super) fn escaped_member(&mut self) -> Result<Member, Error> {
        let start = self.cursor;
        self.cursor.step();
        let letter = self.cursor.peek().unwrap_or('\\');
        if let Some(member) = category(letter) {
            self.cursor.step();
            return Ok(member);
        }
        let code = match letter {
            'b' => {
                self.cursor.step();
                0x08
            }
            '0'..='7' => octal(&mut self.cursor, start)?,
            _ => character(&mut self.cursor, start)?,
        };
        Ok(Member::Character(code))
    }

    fn numbered_reference(&mut self, start: Cursor<'_>, group: usize) -> Result<Node, Error> {
        if group > self.groups.len() {
            return Err(self.error(start.index() + 1, Problem::NoSuchGroup(group.to_string())));
        }
        self.reference(group, start.index())
    }

    /// A reference to an existing group, written at a position.
    pub(super) fn reference(&mut self, group: usize, position: usize) -> Result<Node, Error> {
        let Some(width) = self.groups.get(group - 1).copied().flatten() else {
            return Err(self.error(position, Problem::OpenGroup));
        };
        self.check_look_behind(group)?;
        Ok(Node::Backreference(group, width))
    }

    /// Rejects references to groups inside the lookbehind at the cursor, or after it.
    pub(super) fn check_look_behind(&self, group: usize) -> Result<(), Error> {
        if self.behind.is_none_or(|groups| group <= groups) {
            return Ok(());
        }
        match self.groups.get(group - 1) {
            Some(Some(_)) => Err(self.error_here(Problem::GroupOfLookBehind)),
            _ => Err(self.error_here(Problem::OpenGroup)),
        }
    }
}

/// The category that a letter names.
fn category(letter: char) -> Option<Member> {
    let category = match letter.to_ascii_lowercase() {
        'd' => Category::Digit,
        's' => Category::Space,
        'w' => Category::Word,
        _ => return None,
    };
    Some(Member::Category { category, negated: letter.is_ascii_uppercase() })
}

/// The character that a letter names wherever escapes are allowed.
pub(super) fn control(letter: char) -> Option<u32> {
    Some(match letter {
        'a' => 0x07,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        _ => return None,
    })
}

/// Parses a character escape; the cursor is after the backslash, which is at `start`.
fn character(cursor: &mut Cursor<'_>, start: Cursor<'_>) -> Result<u32, Error> {
    let letter = cursor.step().unwrap_or('\\');
    if let Some(code) = control(letter) {
        return Ok(code);
    }
    match letter {
        'x' => hexadecimal(cursor, start, 2),
        'u' => hexadecimal(cursor, start, 4),
        'U' => hexadecimal(cursor, start, 8),
        'N' => Err(named(cursor, start)),
        _ if letter.is_ascii_alphanumeric() => Err(unknown(*cursor, start)),
        _ => Ok(letter.into()),
    }
}

/// The error for an unknown escape.
pub(super) fn unknown(cursor: Cursor<'_>, start: Cursor<'_>) -> Error {
    cursor.error(start.index(), Problem::UnknownEscape(quoted(cursor.since(start))))
}

fn hexadecimal(cursor: &mut Cursor<'_>, start: Cursor<'_>, length: usize) -> Result<u32, Error> {
    let digits = cursor.take_some(length, |character| character.is_ascii_hexdigit());
    if digits.len() < length {
        return Err(cursor.error(start.index(), Problem::ShortEscape(cursor.since(start).to_owned())));
    }
    u32::from_str_radix(digits, 16)
        .ok()
        .filter(|code| *code <= u32::from(char::MAX))
        .ok_or_else(|| unknown(*cursor, start))
}

/// The error for `\N`: its name is malformed, or names are not supported.
fn named(cursor: &mut Cursor<'_>, start: Cursor<'_>) -> Error {
    if !cursor.take('{') {
        return cursor.error(cursor.index(), Problem::NoBrace);
    }
    match delimited(cursor, '}') {
        Ok(_) => cursor.error(start.index(), Problem::CharacterName),
        Err(error) => error,
    }
}

/// The meaning of digits after a backslash outside sets.
pub(super) enum Digits {
    /// A character by its octal code.
    Character(u32),
    /// A group by its index.
    Group(usize),
}

/// Parses digits: a zero or three octal digits name a character, anything else a group of one or two digits.
pub(super) fn digits(cursor: &mut Cursor<'_>, start: Cursor<'_>) -> Result<Digits, Error> {
    let mut ahead = *cursor;
    let is_octal = ahead.take_some(3, |character| character.is_digit(8)).len() == 3;
    if is_octal || cursor.peek() == Some('0') {
        return octal(cursor, start).map(Digits::Character);
    }
    let number = cursor.take_some(2, |character| character.is_ascii_digit());
    Ok(Digits::Group(number.parse().unwrap_or(usize::MAX)))
}

/// Parses a character of up to three octal digits.
fn octal(cursor: &mut Cursor<'_>, start: Cursor<'_>) -> Result<u32, Error> {
    let digits = cursor.take_some(3, |character| character.is_digit(8));
    match u32::from_str_radix(digits, 8) {
        Ok(code) if code <= MAX_OCTAL => Ok(code),
        _ => Err(cursor.error(start.index(), Problem::LargeOctal(cursor.since(start).to_owned()))),
    }
}
