//! A position in a pattern or a replacement template.
//!
//! The parsers ask the cursor what comes next and step over it; a copy of a cursor is a place to return to. Places in
//! errors are counted in characters, as `re.error.pos` is ("Exceptions" in the `re` documentation), so the cursor
//! counts them as it goes.
//!
//! A backslash escapes the character after it wherever it stands, so whether the last backslash of a text has a
//! character left to escape is known from the start. One that has none is not for the parsers: their text ends before
//! it, and [`Cursor::finish`] reports it.

use super::error::Error;
use super::problem::Problem;

/// A place in a text, between two characters.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'p> {
    text: &'p str,
    /// Where the readable part ends.
    end: usize,
    byte: usize,
    index: usize,
}

impl<'p> Cursor<'p> {
    /// The start of a text.
    pub(super) fn new(text: &'p str) -> Self {
        let backslashes = text.len() - text.trim_end_matches('\\').len();
        Self { text, end: text.len() - backslashes % 2, byte: 0, index: 0 }
    }

    /// The whole text.
    pub(super) fn whole(self) -> &'p str {
        self.text
    }

    /// How many characters lie before the cursor.
    pub(super) fn index(self) -> usize {
        self.index
    }

    /// What lies after the cursor.
    pub(super) fn rest(self) -> &'p str {
        self.text.get(self.byte..self.end).unwrap_or_default()
    }

    /// What lies between an earlier place and this one.
    pub(super) fn since(self, earlier: Self) -> &'p str {
        self.text.get(earlier.byte..self.byte).unwrap_or_default()
    }

    /// The next character.
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

    /// Steps over the next character, and over the one that it escapes if it is a backslash.
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

    /// Steps up to a closing character and over it, and gives what lies before it; `None` at the end of the text.
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

    /// An error at a place given in characters.
    pub(super) fn error(self, position: usize, problem: Problem) -> Error {
        problem.into_error(Some(position), self.text)
    }

    /// What parsing came to, where the cursor is where it ended.
    ///
    /// A backslash that escapes nothing is noticed once everything before it is read, so it takes the place of any
    /// other problem found there: `re.compile("*\\")` complains about position 1.
    pub(super) fn finish<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        if self.byte == self.end && self.end < self.text.len() {
            return Err(self.error(self.index, Problem::LoneBackslash));
        }
        result
    }
}
