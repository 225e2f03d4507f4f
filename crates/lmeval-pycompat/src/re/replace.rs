//! Replacing matches.

use std::borrow::Cow;
use std::ops::Range;

use super::error::Error;
use super::matches::Match;
use super::pattern::Regex;
use super::replacement::{Piece, pieces};

impl Regex {
    /// Replaces the first `count` matches, or all of them if it is 0, with a template: `re.sub`.
    pub fn sub(&self, template: &str, text: &str, count: usize) -> Result<String, Error> {
        Ok(self.sub_cow(template, text, count)?.into_owned())
    }

    /// Like [`Regex::sub`], without a copy if the result is a substring of the input.
    ///
    /// ```
    /// use std::borrow::Cow;
    /// use lmeval_pycompat::re::{Flags, Regex};
    ///
    /// let regex = Regex::new("#+ ", Flags::NONE)?;
    /// assert!(matches!(regex.sub_cow("", "#### 42", 0)?, Cow::Borrowed("42")));
    /// assert_eq!(regex.sub_cow("", "4# 2", 0)?, "42");
    /// # Ok::<(), lmeval_pycompat::re::Error>(())
    /// ```
    pub fn sub_cow<'t>(&self, template: &str, text: &'t str, count: usize) -> Result<Cow<'t, str>, Error> {
        let pieces = match template {
            "" => Vec::new(),
            _ => pieces(template, self.groups(), &self.shared.names)?,
        };
        let mut replaced = Replaced::new(text);
        if pieces.iter().any(|piece| matches!(piece, Piece::Group(_))) {
            self.for_each(text, count, |found| {
                replaced.pass(found.start()..found.end());
                for piece in &pieces {
                    replaced.push(match piece {
                        Piece::Text(text) => text,
                        Piece::Group(group) => found.group(*group).unwrap_or_default(),
                    });
                }
            })?;
            return Ok(replaced.finish());
        }
        let mut scanner = self.scanner(text, true);
        let mut matches = 0;
        while count == 0 || matches < count {
            let Some(located) = scanner.locate()? else { break };
            matches += 1;
            replaced.pass(located.span());
            for piece in &pieces {
                if let Piece::Text(text) = piece {
                    replaced.push(text);
                }
            }
        }
        Ok(replaced.finish())
    }

    /// Removes all matches, without a copy if the result is a substring of the input: `re.sub` with an empty template.
    pub fn remove_all<'t>(&self, text: Cow<'t, str>) -> Result<Cow<'t, str>, Error> {
        let text = match text {
            Cow::Borrowed(text) => return self.sub_cow("", text, 0),
            Cow::Owned(text) => text,
        };
        let left = match self.sub_cow("", &text, 0)? {
            Cow::Borrowed(left) if left.len() == text.len() => None,
            left => Some(left.into_owned()),
        };
        Ok(Cow::Owned(left.unwrap_or(text)))
    }

    /// Replaces the first `count` matches, or all of them if it is 0, with the results of a function.
    pub fn sub_with(
        &self,
        text: &str,
        count: usize,
        mut replacement: impl FnMut(&Match<'_>) -> String,
    ) -> Result<String, Error> {
        let mut replaced = Replaced::new(text);
        self.for_each(text, count, |found| {
            replaced.pass(found.start()..found.end());
            replaced.push(&replacement(&found));
        })?;
        Ok(replaced.finish().into_owned())
    }
}

/// A string whose matches are replaced one after the other.
struct Replaced<'t> {
    text: &'t str,
    /// The finished part; borrowed from the input as long as possible.
    out: Cow<'t, str>,
    /// Where the rest starts.
    rest: usize,
}

impl<'t> Replaced<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, out: Cow::Borrowed(""), rest: 0 }
    }

    /// Appends the part before a match, and skips the match.
    fn pass(&mut self, found: Range<usize>) {
        self.keep(self.text.get(self.rest..found.start).unwrap_or_default());
        self.rest = found.end;
    }

    fn keep(&mut self, part: &'t str) {
        if self.out.is_empty() && matches!(self.out, Cow::Borrowed(_)) {
            self.out = Cow::Borrowed(part);
        } else {
            self.push(part);
        }
    }

    /// Appends a string.
    fn push(&mut self, addition: &str) {
        if addition.is_empty() {
            return;
        }
        if let Cow::Borrowed(part) = self.out {
            let mut out = String::with_capacity(self.text.len() + addition.len());
            out.push_str(part);
            self.out = Cow::Owned(out);
        }
        self.out.to_mut().push_str(addition);
    }

    fn finish(mut self) -> Cow<'t, str> {
        self.keep(self.text.get(self.rest..).unwrap_or_default());
        self.out
    }
}
