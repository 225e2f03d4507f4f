//! Repeats: `*`, `+`, `?` and `{m,n}`, each greedy, lazy with a `?` after it, or possessive with a `+`.
//!
//! A brace that does not open a complete pair of bounds is an ordinary character. See the entries from `*` to `{m,n}+`
//! in "Regular Expression Syntax" of the `re` documentation.

use super::ast::{Greed, Node, Repeat, Role, Sequence, UNBOUNDED};
use super::error::Error;
use super::grammar::Parser;
use super::problem::Problem;

impl Parser<'_> {
    /// Applies the quantifier that follows an item, if there is one.
    pub(super) fn quantified(&mut self, node: Node) -> Result<Node, Error> {
        self.skip_trivia()?;
        let position = self.cursor.index();
        let Some((min, max)) = self.rounds()? else { return Ok(node) };
        let body = match node {
            Node::Anchor(_) => return Err(self.error(position, Problem::NothingToRepeat)),
            // Parentheses that only group are no longer needed.
            Node::Group(group)
                if group.role == Role::Plain && group.added.is_empty() && group.removed.is_empty() =>
            {
                group.body
            }
            node => Sequence::new(vec![node]),
        };
        let greed = self.greed();
        self.skip_trivia()?;
        let position = self.cursor.index();
        if self.rounds()?.is_some() {
            return Err(self.error(position, Problem::RepeatOfRepeat));
        }
        Ok(Node::Repeat(Box::new(Repeat { min, max, greed, body })))
    }

    /// The minimum and maximum rounds of the quantifier at the cursor, if there is one.
    pub(super) fn rounds(&mut self) -> Result<Option<(u32, u32)>, Error> {
        let rounds = match self.cursor.peek() {
            Some('*') => (0, UNBOUNDED),
            Some('+') => (1, UNBOUNDED),
            Some('?') => (0, 1),
            Some('{') => return self.bounds(),
            _ => return Ok(None),
        };
        self.cursor.step();
        Ok(Some(rounds))
    }

    /// The sign after a quantifier.
    fn greed(&mut self) -> Greed {
        let greed = match self.cursor.peek() {
            Some('?') => Greed::Lazy,
            Some('+') => Greed::Possessive,
            _ => return Greed::Greedy,
        };
        self.cursor.step();
        greed
    }

    /// The bounds in braces; `None`, without moving the cursor, if the brace is an ordinary character.
    fn bounds(&mut self) -> Result<Option<(u32, u32)>, Error> {
        let start = self.cursor;
        self.cursor.step();
        let inside = self.cursor.index();
        let low = self.cursor.take_some(usize::MAX, |character| character.is_ascii_digit());
        let high = if self.cursor.take(',') {
            self.cursor.take_some(usize::MAX, |character| character.is_ascii_digit())
        } else {
            low
        };
        let is_empty = self.cursor.since(start) == "{";
        if is_empty || !self.cursor.take('}') {
            self.cursor = start;
            return Ok(None);
        }
        let min = self.bound(low, 0)?;
        let max = self.bound(high, UNBOUNDED)?;
        if min > max {
            return Err(self.error(inside, Problem::BoundsReversed));
        }
        Ok(Some((min, max)))
    }

    fn bound(&self, digits: &str, absent: u32) -> Result<u32, Error> {
        if digits.is_empty() {
            return Ok(absent);
        }
        match digits.parse() {
            Ok(bound) if bound < UNBOUNDED => Ok(bound),
            _ => Err(Problem::CountTooLarge.into_error(None, self.cursor.source())),
        }
    }
}
