//! Steps through UTF-8 by byte offset.

use super::program::Assertion;
use super::unicode::{is_ascii_word, is_word};

/// The character at a position and the position after it, or `None` at the end.
#[inline]
pub(super) fn character_at(text: &str, position: usize) -> Option<(u32, usize)> {
    let first = *text.as_bytes().get(position)?;
    if first < 128 {
        return Some((u32::from(first), position + 1));
    }
    let character = text.get(position..)?.chars().next()?;
    Some((character.into(), position + character.len_utf8()))
}

/// The character before a position and where it starts, or `None` at the start.
#[inline]
pub(super) fn character_before(text: &str, position: usize) -> Option<(u32, usize)> {
    let start = position_before(text, position)?;
    character_at(text, start).map(|(code, _)| (code, start))
}

/// Where the character before a position starts.
#[inline]
pub(super) fn position_before(text: &str, position: usize) -> Option<usize> {
    let mut start = position.checked_sub(1)?;
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    Some(start)
}

/// Steps back some characters; `None` if there are too few.
pub(super) fn step_back(text: &str, position: usize, count: usize) -> Option<usize> {
    (0..count).try_fold(position, |position, _| position_before(text, position))
}

/// Whether an assertion holds at a position.
pub(super) fn holds_at(text: &str, position: usize, assertion: Assertion) -> bool {
    let bytes = text.as_bytes();
    match assertion {
        Assertion::TextStart => position == 0,
        Assertion::LineStart => position == 0 || bytes.get(position - 1) == Some(&b'\n'),
        Assertion::TextEnd => position == bytes.len(),
        Assertion::FinalLineEnd => {
            position == bytes.len() || (position + 1 == bytes.len() && bytes.get(position) == Some(&b'\n'))
        }
        Assertion::LineEnd => position == bytes.len() || bytes.get(position) == Some(&b'\n'),
        Assertion::Boundary { ascii } => !text.is_empty() && is_boundary(text, position, ascii),
        // Reference: an empty string has neither boundaries nor non-boundaries.
        Assertion::NotBoundary { ascii } => !text.is_empty() && !is_boundary(text, position, ascii),
    }
}

fn is_boundary(text: &str, position: usize, ascii: bool) -> bool {
    let word = |code: u32| if ascii { is_ascii_word(code) } else { is_word(code) };
    let before = character_before(text, position).is_some_and(|(code, _)| word(code));
    let after = character_at(text, position).is_some_and(|(code, _)| word(code));
    before != after
}
