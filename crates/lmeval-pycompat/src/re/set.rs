//! Character sets in brackets.
//!
//! A set lists characters, ranges and categories; a `]` directly after the opening is a member, and so is a `-` at
//! either end. There are no operators between sets. See the entry `[]` in "Regular Expression Syntax" of the `re`
//! documentation.

use super::ast::{Member, Node, Set};
use super::cursor::Cursor;
use super::error::Error;
use super::grammar::{Parser, set_node};
use super::problem::{Problem, quoted};

impl Parser<'_> {
    /// Parses a set; the cursor is at its opening bracket.
    pub(super) fn set(&mut self) -> Result<Node, Error> {
        let opening = self.cursor.index();
        self.cursor.step();
        let negated = self.cursor.take('^');
        let mut members = Vec::new();
        loop {
            let start = self.cursor;
            let first = match self.cursor.peek() {
                Some(']') if !members.is_empty() => {
                    self.cursor.step();
                    return Ok(set_node(Set { negated, members }));
                }
                _ => self.member(opening)?,
            };
            self.count()?;
            let mut dash = self.cursor;
            if !dash.take('-') || dash.peek() == Some(']') {
                members.push(first);
                continue;
            }
            let first_length = length_counted(self.cursor, start);
            self.cursor = dash;
            let last = self.member(opening)?;
            match (first, last) {
                (Member::Character(first), Member::Character(last)) if first <= last => {
                    members.push(Member::Range(first, last));
                }
                _ => {
                    // Reference: the position is found by counting back from the end of the range.
                    let length = first_length + 1 + length_counted(self.cursor, dash);
                    let range = quoted(self.cursor.since(start));
                    return Err(self.error(self.cursor.index() - length, Problem::BadRange(range)));
                }
            }
        }
    }

    /// Parses a member, or one end of a range.
    fn member(&mut self, opening: usize) -> Result<Member, Error> {
        match self.cursor.peek() {
            None => Err(self.error(opening, Problem::Unclosed("set"))),
            Some('\\') => self.escaped_member(),
            Some(character) => {
                self.cursor.step();
                Ok(Member::Character(character.into()))
            }
        }
    }
}

/// The length of one end of a range for error positions: any escape counts as two characters, so the error for
/// `[\x41-!]` is at position 3.
fn length_counted(end: Cursor<'_>, start: Cursor<'_>) -> usize {
    (end.index() - start.index()).min(2)
}
