//! A position in a pattern or a replacement template.
//!
//! The parsers query the cursor for the next character and step over it; a copy of a cursor is a bookmark. Positions in
//! errors count characters, as `re.error.pos` does ("Exceptions" in the `re` documentation), so the cursor counts them
//! as it moves.
//!
//! A backslash always escapes the character after it, so whether the last backslash has a character left to escape is
//! known from the start. The parsers never see one that has none: their input ends before it, and [`Cursor::finish`]
//! reports it.

use super::error::Error;
use super::problem::Problem;

/// A position between two characters.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'p> {
    text: &'p str,
    /// Where the readable part ends.
    end: usize,
    byte: usize,
    index: usize,
}

impl<'p> Cursor<'p> {
    /// A cursor at the start of a string.
    pub(super) fn new(text: &'p str) -> Self {
        let backslashes = text.len() - text.trim_end_matches('\\').len();
        Self { text, end: text.len() - backslashes % 2, byte: 0, index: 0 }
    }

    /// The entire string.
    pub(super) fn source(self) -> &'p str {
        self.text
    }

    /// The number of characters before the cursor.
    pub(super) fn index(self) -> usize {
        self.index
    }

    /// The string after the cursor.
    pub(super) fn rest(self) -> &'p str {
        self.text.get(self.byte..self.end).unwrap_or_default()
    }

    /// The string between an earlier position and this one.
    pub(super) fn since(self, earlier: Self) -> &'p str {
        self.text.get(earlier.byte..self.byte).unwrap_or_default()
    }

    #[inline]
    pub(super) fn peek(self) -> Option<char> {
        match self.text.as_bytes().get(self.byte)? {
            _ if self.byte >= self.end => None,
            byte if byte.is_ascii() => Some(char::from(*byte)),
            _ => self.rest().chars().next(),
        }
    }

    /// Steps over the next character.
    #[inline]
    pub(super) fn step(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.byte += next.len_utf8();
        self.index += 1;
        Some(next)
    }

    /// Steps over the next character and, if it is a backslash, over the character that it escapes.
    pub(super) fn step_unit(&mut self) -> Option<char> {
        let next = self.step();
        if next == Some('\\') {
            self.step();
        }
        next
    }

    /// Steps over the next character if it is this one.
    #[inline]
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.step();
        }
        found
    }

    /// Steps over at most `most` characters that qualify.
    pub(super) fn take_some(&mut self, most: usize, qualifies: impl Fn(char) -> bool) -> &'p str {
        let start = *self;
        for _ in 0..most {
            if !self.peek().is_some_and(&qualifies) {
                break;
            }
            self.step();
        }
        self.since(start)
    }

    /// Steps over a closing character, and returns the string before it; `None` at the end of the string.
    ///
    /// A character after a backslash never closes anything.
    pub(super) fn take_until(&mut self, closing: char) -> Option<&'p str> {
        let start = *self;
        loop {
            let end = *self;
            if self.step_unit()? == closing {
                return Some(end.since(start));
            }
        }
    }

    /// An error at a position in characters.
    pub(super) fn error(self, position: usize, problem: Problem) -> Error {
        problem.into_error(Some(position), self.text)
    }

    /// Completes parsing; the cursor is where it ended.
    ///
    /// A trailing backslash is reported once everything before it has been read, so it replaces any other problem found
    /// there: `re.compile("*\\")` complains about position 1.
    pub(super) fn finish<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        if self.byte == self.end && self.end < self.text.len() {
            return Err(self.error(self.index, Problem::LoneBackslash));
        }
        result
    }
}
