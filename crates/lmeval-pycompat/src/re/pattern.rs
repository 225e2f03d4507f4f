//! Compiled patterns and their operations.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memmem::{Finder, FinderRev};

use super::ast::{Greed, UNBOUNDED};
use super::charset::Matcher;
use super::error::Error;
use super::fast::FastForms;
use super::flags::Flags;
use super::grammar::{Names, parse};
use super::machine::Constraints;
use super::matches::{Literal, Match, Scanner, Strategy};
use super::program::{Instruction, Program, compile};
use crate::Value;

/// The step limit of the backtracking matcher: about a second in an optimised build.
const STEP_LIMIT: u64 = 60_000_000;
/// Additional steps for every byte searched, so that long strings do not hit the limit.
const STEPS_PER_BYTE: u64 = 100;
/// The number of bytes to be searched before compiling for the `regex` crate, which takes about 0.1 ms, pays off.
const FAST_FROM_BYTES: usize = 2048;

/// A compiled pattern; cloning it is cheap.
#[derive(Clone)]
pub struct Regex {
    pub(super) shared: Arc<PatternParts>,
    step_limit: u64,
    engine: Engine,
}

/// The parts of a pattern that clones and matches share.
#[derive(Debug)]
pub(super) struct PatternParts {
    /// The source of the pattern.
    pub(super) pattern: String,
    pub(super) program: Program,
    fast: FastForms,
    /// A substring search, if the pattern is little more than a literal string.
    literal: Option<Literal>,
    pub(super) names: Names,
    searched: AtomicUsize,
}

/// One of all matches, selected by its index.
#[derive(Clone, Debug)]
pub enum Nth<'t> {
    /// The match at that index.
    Found(Match<'t>),
    /// There are too few matches.
    OutOfRange {
        /// The number of matches.
        matches: usize,
    },
}

/// Which matcher to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Whichever should be faster.
    Best,
    /// The `regex` crate wherever possible.
    #[cfg(test)]
    Fast,
    /// The backtracking matcher.
    #[cfg(test)]
    Machine,
}

impl PatternParts {
    /// The number of groups, without group 0.
    pub(super) fn groups(&self) -> usize {
        self.program.slots / 2
    }

    /// Whether any group has a name.
    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// The index of a named group.
    pub(super) fn group_by_name(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Regex({:?})", self.shared.pattern)
    }
}

impl Regex {
    /// Compiles a pattern: `re.compile`.
    pub fn new(pattern: &str, flags: Flags) -> Result<Self, Error> {
        let parsed = parse(pattern, flags)?;
        let program = compile(&parsed, pattern)?;
        let literal = literal(&program);
        let shared = PatternParts {
            pattern: pattern.to_owned(),
            program,
            literal,
            names: parsed.names.clone(),
            fast: FastForms::new(parsed),
            searched: AtomicUsize::new(0),
        };
        Ok(Self { shared: Arc::new(shared), step_limit: STEP_LIMIT, engine: Engine::Best })
    }

    /// The same pattern with another step limit for the backtracking matcher.
    pub fn with_step_limit(mut self, step_limit: u64) -> Self {
        self.step_limit = step_limit;
        self
    }

    #[cfg(test)]
    pub(super) fn with_engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// The source of the pattern.
    pub fn pattern(&self) -> &str {
        &self.shared.pattern
    }

    /// The number of groups, without group 0.
    pub fn groups(&self) -> usize {
        self.shared.groups()
    }

    /// The names of groups with their indices, in the order of the pattern.
    pub fn group_names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.shared.names.iter().map(|(name, index)| (name.as_str(), *index))
    }

    /// Creates a scanner; `may_be_fast` is false if matches must start at the beginning.
    pub(super) fn scanner<'r, 't: 'r>(&'r self, text: &'t str, may_be_fast: bool) -> Scanner<'r, 't> {
        let steps = self.step_limit.saturating_add(STEPS_PER_BYTE.saturating_mul(text.len() as u64));
        let strategy = if may_be_fast { self.strategy(text) } else { Strategy::Machine };
        Scanner::new(&self.shared, text, strategy, steps)
    }

    fn strategy(&self, text: &str) -> Strategy<'_> {
        match &self.shared.literal {
            Some(literal) if self.engine == Engine::Best => Strategy::Literal(literal),
            _ if self.is_fast_worthwhile(text.len()) => {
                self.shared.fast.for_text(text).map_or(Strategy::Machine, Strategy::Form)
            }
            _ => Strategy::Machine,
        }
    }

    fn is_fast_worthwhile(&self, length: usize) -> bool {
        match self.engine {
            Engine::Best => {
                // Once it pays off it always does, and threads need not write to the same memory.
                self.shared.searched.load(Ordering::Relaxed) >= FAST_FROM_BYTES
                    || self.shared.searched.fetch_add(length, Ordering::Relaxed).saturating_add(length)
                        >= FAST_FROM_BYTES
            }
            #[cfg(test)]
            Engine::Fast => true,
            #[cfg(test)]
            Engine::Machine => false,
        }
    }

    /// The first match anywhere: `re.search`.
    pub fn search<'t>(&self, text: &'t str) -> Result<Option<Match<'t>>, Error> {
        self.scanner(text, true).next()
    }

    /// The match at the start of the string: `re.match`.
    pub fn match_start<'t>(&self, text: &'t str) -> Result<Option<Match<'t>>, Error> {
        self.scanner(text, false).find(Constraints { anchored: true, ..Constraints::default() })
    }

    /// The match of the entire string: `re.fullmatch`.
    pub fn fullmatch<'t>(&self, text: &'t str) -> Result<Option<Match<'t>>, Error> {
        self.scanner(text, false).find(Constraints {
            anchored: true,
            to_the_end: true,
            ..Constraints::default()
        })
    }

    /// All non-overlapping matches: `re.finditer`.
    pub fn find_iter<'t>(&self, text: &'t str) -> Result<Vec<Match<'t>>, Error> {
        let mut matches = Vec::new();
        self.for_each(text, 0, |found| matches.push(found))?;
        Ok(matches)
    }

    /// The match at an index among all: `list(re.finditer(…))[index]`. Negative indices count from the end.
    ///
    /// ```
    /// use lmeval_pycompat::re::{Flags, Nth, Regex};
    ///
    /// let regex = Regex::new("[0-9]+", Flags::NONE)?;
    /// assert!(matches!(regex.nth_match("1 22 333", -1)?, Nth::Found(found) if found.as_str() == "333"));
    /// assert!(matches!(regex.nth_match("1 22 333", 3)?, Nth::OutOfRange { matches: 3 }));
    /// # Ok::<(), lmeval_pycompat::re::Error>(())
    /// ```
    pub fn nth_match<'t>(&self, text: &'t str, index: i64) -> Result<Nth<'t>, Error> {
        let mut scanner = self.scanner(text, true);
        let mut matches = 0;
        if index == 0 {
            return Ok(scanner.next()?.map_or(Nth::OutOfRange { matches }, Nth::Found));
        }
        if index > 0 {
            while let Some(located) = scanner.locate()? {
                if matches as u64 == index.unsigned_abs() {
                    return Ok(Nth::Found(scanner.complete(located)));
                }
                matches += 1;
            }
            return Ok(Nth::OutOfRange { matches });
        }
        // Groups are only computed once it is known which match is needed.
        let mut latest = VecDeque::new();
        while let Some(located) = scanner.locate()? {
            if latest.len() as u64 == index.unsigned_abs() {
                latest.pop_front();
            }
            latest.push_back(located);
            matches += 1;
        }
        match latest.pop_front() {
            Some(located) if matches as u64 >= index.unsigned_abs() => {
                Ok(Nth::Found(scanner.complete(located)))
            }
            _ => Ok(Nth::OutOfRange { matches }),
        }
    }

    /// All matches as values: `re.findall`.
    ///
    /// Strings if there is at most one group, otherwise tuples of strings; a group that did not participate is an empty
    /// string.
    pub fn findall(&self, text: &str) -> Result<Vec<Value>, Error> {
        let mut values = Vec::new();
        self.for_each(text, 0, |found| {
            values.push(match self.groups() {
                0 => Value::str(found.as_str()),
                1 => Value::str(found.group(1).unwrap_or_default()),
                _ => Value::tuple(found.groups().map(|group| Value::str(group.unwrap_or_default()))),
            });
        })?;
        Ok(values)
    }

    /// Splits the string at the first `maxsplit` matches, or at all of them if it is 0: `re.split`.
    ///
    /// The matches of groups appear between the parts, `None` for groups that did not participate.
    pub fn split(&self, text: &str, maxsplit: usize) -> Result<Vec<Option<String>>, Error> {
        let mut parts = Vec::new();
        let mut last = 0;
        self.for_each(text, maxsplit, |found| {
            parts.push(text.get(last..found.start()).map(str::to_owned));
            parts.extend(found.groups().map(|group| group.map(str::to_owned)));
            last = found.end();
        })?;
        parts.push(text.get(last..).map(str::to_owned));
        Ok(parts)
    }

    /// Calls a function with the first `limit` matches, or with all of them if it is 0.
    pub(super) fn for_each<'t>(
        &self,
        text: &'t str,
        limit: usize,
        mut action: impl FnMut(Match<'t>),
    ) -> Result<(), Error> {
        let mut scanner = self.scanner(text, true);
        let mut found = 0;
        while limit == 0 || found < limit {
            let Some(next) = scanner.next()? else { break };
            action(next);
            found += 1;
        }
        Ok(())
    }
}

/// The substring search that finds the matches of a program, if there is one.
fn literal(program: &Program) -> Option<Literal> {
    match program.instructions.as_slice() {
        _ if program.slots > 0 => None,
        [Instruction::Text(text), Instruction::Match] => {
            Some(Literal::First(Box::new(Finder::new(text.as_bytes()).into_owned())))
        }
        [
            Instruction::Run { matcher: Matcher::Anything, min: 0, max: UNBOUNDED, greed: Greed::Greedy },
            Instruction::Text(text),
            Instruction::Match,
        ] => Some(Literal::UpToLast(FinderRev::new(text.as_bytes()).into_owned())),
        _ => None,
    }
}

/// Puts a backslash before every character that could be special: `re.escape`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
