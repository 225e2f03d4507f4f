//! Matches, and the scan that finds them.

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem::Finder;

use super::error::{Error, ErrorKind};
use super::machine::{Demand, Machine, UNSET};
use super::own::OwnForm;
use super::pattern::Shared;

/// One match in a text.
#[derive(Clone, Debug)]
pub struct Match<'t> {
    text: &'t str,
    spans: Vec<Option<Range<usize>>>,
    /// The pattern, where it has names: sharing it in every match would let threads wait for one another.
    named: Option<Arc<Shared>>,
}

impl<'t> Match<'t> {
    /// What a group matched, group 0 being the whole match; `None` if it took no part or does not exist.
    pub fn group(&self, index: usize) -> Option<&'t str> {
        self.text.get(self.span(index)?)
    }

    /// What a named group matched; `None` if it took no part or does not exist.
    pub fn name(&self, name: &str) -> Option<&'t str> {
        self.group(self.named.as_ref()?.group_by_name(name)?)
    }

    /// The byte range of a group in the text.
    pub fn span(&self, index: usize) -> Option<Range<usize>> {
        self.spans.get(index).cloned().flatten()
    }

    /// The byte position where the match starts.
    pub fn start(&self) -> usize {
        self.span(0).map_or(0, |span| span.start)
    }

    /// The byte position after the match.
    pub fn end(&self) -> usize {
        self.span(0).map_or(0, |span| span.end)
    }

    /// The whole match.
    pub fn as_str(&self) -> &'t str {
        self.group(0).unwrap_or_default()
    }

    /// What every group matched, without group 0.
    pub fn groups(&self) -> impl Iterator<Item = Option<&'t str>> + '_ {
        (1..self.spans.len()).map(|index| self.group(index))
    }
}

fn named(shared: &Arc<Shared>) -> Option<Arc<Shared>> {
    shared.has_names().then(|| Arc::clone(shared))
}

/// What finds matches.
pub(super) enum Means<'r> {
    /// The pattern is this text.
    Text(&'r Finder<'static>),
    /// A form for the `regex` crate.
    Form(OwnForm),
    /// The backtracking matcher.
    Machine,
}

/// A match that is found, but whose groups are perhaps not known yet.
pub(super) enum Located<'t> {
    /// Where it lies.
    Span(Range<usize>),
    /// All of it.
    Whole(Match<'t>),
}

impl Located<'_> {
    /// Where it lies.
    pub(super) fn span(&self) -> Range<usize> {
        match self {
            Self::Span(span) => span.clone(),
            Self::Whole(found) => found.start()..found.end(),
        }
    }
}

/// A scan of a text for matches that do not overlap.
pub(super) struct Scanner<'r, 't> {
    shared: &'r Arc<Shared>,
    text: &'t str,
    means: Means<'r>,
    machine: Option<Machine<'r>>,
    steps: u64,
    position: usize,
    must_advance: bool,
}

impl<'r, 't: 'r> Scanner<'r, 't> {
    /// A scan from the start of a text.
    pub(super) fn new(shared: &'r Arc<Shared>, text: &'t str, means: Means<'r>, steps: u64) -> Self {
        Self { shared, text, means, machine: None, steps, position: 0, must_advance: false }
    }

    /// The next match, or `None` when there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Match<'t>>, Error> {
        let groups = self.shared.groups();
        if let Means::Form(form) = &mut self.means
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

    /// Where the next match lies, or `None` when there are no more.
    pub(super) fn locate(&mut self) -> Result<Option<Located<'t>>, Error> {
        let located = match &self.means {
            Means::Text(wanted) => {
                let rest = self.text.as_bytes().get(self.position..).unwrap_or_default();
                wanted.find(rest).map(|offset| {
                    let start = self.position + offset;
                    Located::Span(start..start + wanted.needle().len())
                })
            }
            Means::Form(form) if !self.must_advance => form.find(self.text, self.position).map(Located::Span),
            _ => {
                let demand = Demand { must_advance: self.must_advance, ..Demand::default() };
                self.find(demand)?.map(Located::Whole)
            }
        };
        if let Some(located) = &located {
            self.pass(located.span());
        }
        Ok(located)
    }

    /// A match of this scan with its groups.
    pub(super) fn complete(&mut self, located: Located<'t>) -> Match<'t> {
        let span = match located {
            Located::Whole(found) => return found,
            Located::Span(span) => span,
        };
        let groups = self.shared.groups();
        let spans = match &mut self.means {
            Means::Form(form) if groups > 0 => form.captures(self.text, span.start),
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
    pub(super) fn find(&mut self, demand: Demand) -> Result<Option<Match<'t>>, Error> {
        let (shared, text, steps) = (self.shared, self.text, self.steps);
        let machine = self.machine.get_or_insert_with(|| Machine::new(&shared.program, text, steps));
        let found = machine.search(self.position, demand).map_err(|_| {
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
