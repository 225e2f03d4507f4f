//! Steps through UTF-8 text by byte position.

use super::program::Place;
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

/// Goes back some characters, or `None` if there are not as many.
pub(super) fn go_back(text: &str, position: usize, count: usize) -> Option<usize> {
    (0..count).try_fold(position, |position, _| position_before(text, position))
}

/// Whether the position is at the place.
pub(super) fn is_at(text: &str, position: usize, place: Place) -> bool {
    let bytes = text.as_bytes();
    match place {
        Place::TextStart => position == 0,
        Place::LineStart => position == 0 || bytes.get(position - 1) == Some(&b'\n'),
        Place::TextEnd => position == bytes.len(),
        Place::FinalLineEnd => {
            position == bytes.len() || (position + 1 == bytes.len() && bytes.get(position) == Some(&b'\n'))
        }
        Place::LineEnd => position == bytes.len() || bytes.get(position) == Some(&b'\n'),
        Place::Boundary { ascii } => !text.is_empty() && is_boundary(text, position, ascii),
        // Reference: in an empty text there is neither a boundary nor its opposite.
        Place::NotBoundary { ascii } => !text.is_empty() && !is_boundary(text, position, ascii),
    }
}

fn is_boundary(text: &str, position: usize, ascii: bool) -> bool {
    let word = |code: u32| if ascii { is_ascii_word(code) } else { is_word(code) };
    let before = character_before(text, position).is_some_and(|(code, _)| word(code));
    let after = character_at(text, position).is_some_and(|(code, _)| word(code));
    before != after
}
