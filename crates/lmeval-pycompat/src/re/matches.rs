//! Matches, and the scanner that finds them.

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem::{Finder, FinderRev};

use super::error::{Error, ErrorKind};
use super::local::LocalForm;
use super::machine::{Constraints, Machine, UNSET};
use super::pattern::PatternParts;

/// One match in a string.
#[derive(Clone, Debug)]
pub struct Match<'t> {
    text: &'t str,
    spans: Vec<Option<Range<usize>>>,
    /// The pattern, if it has names: sharing it in every match would make threads contend for its reference count.
    named: Option<Arc<PatternParts>>,
}

impl<'t> Match<'t> {
    /// The match of a group, where group 0 is the entire match; `None` if it did not participate or does not exist.
    pub fn group(&self, index: usize) -> Option<&'t str> {
        self.text.get(self.span(index)?)
    }

    /// The match of a named group; `None` if it did not participate or does not exist.
    pub fn name(&self, name: &str) -> Option<&'t str> {
        self.group(self.named.as_ref()?.group_by_name(name)?)
    }

    /// The byte range of a group in the string.
    pub fn span(&self, index: usize) -> Option<Range<usize>> {
        self.spans.get(index).cloned().flatten()
    }

    /// The byte offset where the match starts.
    pub fn start(&self) -> usize {
        self.span(0).map_or(0, |span| span.start)
    }

    /// The byte offset after the match.
    pub fn end(&self) -> usize {
        self.span(0).map_or(0, |span| span.end)
    }

    /// The matched string.
    pub fn as_str(&self) -> &'t str {
        self.group(0).unwrap_or_default()
    }

    /// The matches of all groups, without group 0.
    pub fn groups(&self) -> impl Iterator<Item = Option<&'t str>> + '_ {
        (1..self.spans.len()).map(|index| self.group(index))
    }
}

fn named(shared: &Arc<PatternParts>) -> Option<Arc<PatternParts>> {
    shared.has_names().then(|| Arc::clone(shared))
}

/// A pattern whose matches a substring search finds.
#[derive(Debug)]
pub(super) enum Literal {
    /// The string itself.
    First(Box<Finder<'static>>),
    /// Everything up to and including the last occurrence of the string, as in `(?s).*####`.
    UpToLast(FinderRev<'static>),
}

impl Literal {
    /// The byte range of the first match in a string.
    fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        match self {
            Self::First(wanted) => {
                let start = wanted.find(text)?;
                Some(start..start + wanted.needle().len())
            }
            Self::UpToLast(wanted) => Some(0..wanted.rfind(text)? + wanted.needle().len()),
        }
    }
}

/// How matches are found.
pub(super) enum Strategy<'r> {
    /// A substring search.
    Literal(&'r Literal),
    /// A form for the `regex` crate.
    Form(LocalForm),
    /// The backtracking matcher.
    Machine,
}

/// A match that was found, but whose groups may not be known yet.
pub(super) enum Located<'t> {
    /// Only the location is known.
    Span(Range<usize>),
    /// All groups are known.
    Complete(Match<'t>),
}

impl Located<'_> {
    /// The byte range of the match.
    pub(super) fn span(&self) -> Range<usize> {
        match self {
            Self::Span(span) => span.clone(),
            Self::Complete(found) => found.start()..found.end(),
        }
    }
}

/// Scans a string for non-overlapping matches.
pub(super) struct Scanner<'r, 't> {
    shared: &'r Arc<PatternParts>,
    text: &'t str,
    strategy: Strategy<'r>,
    machine: Option<Machine<'r>>,
    steps: u64,
    position: usize,
    must_advance: bool,
}

impl<'r, 't: 'r> Scanner<'r, 't> {
    /// Creates a scanner at the start of a string.
    pub(super) fn new(
        shared: &'r Arc<PatternParts>,
        text: &'t str,
        strategy: Strategy<'r>,
        steps: u64,
    ) -> Self {
        Self { shared, text, strategy, machine: None, steps, position: 0, must_advance: false }
    }

    /// The next match, or `None` if there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Match<'t>>, Error> {
        let groups = self.shared.groups();
        if let Strategy::Form(form) = &mut self.strategy
            && groups > 0
            && !self.must_advance
        {
            let Some(spans) = form.captures(self.text, self.position) else { return Ok(None) };
            let found = Match { text: self.text, spans, named: named(self.shared) };
            self.pass(found.start()..found.end());
            return Ok(Some(found));
        }
        let located = self.locate()?;
        Ok(located.map(|located| self.complete(located)))
    }

    /// Locates the next match, or `None` if there are no more.
    pub(super) fn locate(&mut self) -> Result<Option<Located<'t>>, Error> {
        let located = match &self.strategy {
            Strategy::Literal(literal) => {
                let rest = self.text.as_bytes().get(self.position..).unwrap_or_default();
                let found = literal.find(rest);
                found.map(|found| Located::Span(self.position + found.start..self.position + found.end))
            }
            Strategy::Form(form) if !self.must_advance => {
                form.find(self.text, self.position).map(Located::Span)
            }
            _ => {
                let constraints = Constraints { must_advance: self.must_advance, ..Constraints::default() };
                self.find(constraints)?.map(Located::Complete)
            }
        };
        if let Some(located) = &located {
            self.pass(located.span());
        }
        Ok(located)
    }

    /// Completes a match of this scan with its groups.
    pub(super) fn complete(&mut self, located: Located<'t>) -> Match<'t> {
        let span = match located {
            Located::Complete(found) => return found,
            Located::Span(span) => span,
        };
        let groups = self.shared.groups();
        let spans = match &mut self.strategy {
            Strategy::Form(form) if groups > 0 => form.captures(self.text, span.start),
            _ => None,
        };
        let spans = spans.unwrap_or_else(|| vec![Some(span)]);
        Match { text: self.text, spans, named: named(self.shared) }
    }

    fn pass(&mut self, found: Range<usize>) {
        self.position = found.end;
        self.must_advance = found.is_empty();
    }

    /// The match that the machine finds from the current position on.
    pub(super) fn find(&mut self, constraints: Constraints) -> Result<Option<Match<'t>>, Error> {
        let (shared, text, steps) = (self.shared, self.text, self.steps);
        let machine = self.machine.get_or_insert_with(|| Machine::new(&shared.program, text, steps));
        let found = machine.search(self.position, constraints).map_err(|_| {
            let message = "the match takes too many steps";
            Error::new(ErrorKind::Limit, message, None, &shared.pattern)
        })?;
        Ok(found.map(|(start, end)| {
            let groups = machine.slots().chunks_exact(2).map(|pair| match *pair {
                [start, end] if start != UNSET && end != UNSET && start <= end => Some(start..end),
                _ => None,
            });
            let spans = std::iter::once(Some(start..end)).chain(groups).collect();
            Match { text, spans, named: named(shared) }
        }))
    }
}
