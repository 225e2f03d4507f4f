//! Matches, and the scan that finds them.

use std::ops::Range;
use std::sync::Arc;

use super::error::{Error, ErrorKind};
use super::machine::{Demand, Machine, UNSET};
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

/// A scan of a text for matches that do not overlap.
pub(super) struct Scanner<'r, 't> {
    shared: &'r Arc<Shared>,
    text: &'t str,
    fast: Option<&'r regex::Regex>,
    machine: Option<Machine<'r>>,
    steps: u64,
    position: usize,
    must_advance: bool,
}

impl<'r, 't: 'r> Scanner<'r, 't> {
    /// A scan from the start of a text, by the `regex` crate where a form for it is given.
    pub(super) fn new(
        shared: &'r Arc<Shared>,
        text: &'t str,
        fast: Option<&'r regex::Regex>,
        steps: u64,
    ) -> Self {
        Self { shared, text, fast, machine: None, steps, position: 0, must_advance: false }
    }

    /// The next match, or `None` when there are no more.
    pub(super) fn next(&mut self) -> Result<Option<Match<'t>>, Error> {
        let found = match self.fast {
            Some(fast) if !self.must_advance => self.search_fast(fast),
            _ => self.find(Demand { must_advance: self.must_advance, ..Demand::default() })?,
        };
        if let Some(found) = &found {
            self.position = found.end();
            self.must_advance = found.start() == found.end();
        }
        Ok(found)
    }

    fn search_fast(&self, fast: &regex::Regex) -> Option<Match<'t>> {
        let spans = if self.shared.groups() == 0 {
            vec![Some(fast.find_at(self.text, self.position)?.range())]
        } else {
            let captures = fast.captures_at(self.text, self.position)?;
            captures.iter().map(|group| group.map(|group| group.range())).collect()
        };
        Some(Match { text: self.text, spans, named: named(self.shared) })
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
