//! Finding samples by conditions, in an order.

use std::cmp::Ordering;

use lmeval_core::Diagnostic;
use lmeval_pycompat::{Value, json, repr};

use super::expression::Expression;
use super::outcome::Outcome;
use super::reader::SampleReader;
use super::sample::Sample;
use crate::Error;

/// Conditions that a sample has to meet, all of them.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The filter pipeline.
    pub filter: Option<String>,
    /// Right, wrong, partial or unscored.
    pub outcome: Option<Outcome>,
    /// Expressions that have to be true.
    pub conditions: Vec<Expression>,
}

impl Query {
    /// Whether a sample meets all conditions. Counts filters and outcomes in `seen`.
    pub fn matches(&self, sample: &Sample<'_>, seen: &mut Seen) -> Result<bool, Error> {
        let filter = sample.filter();
        if !seen.filters.iter().any(|known| *known == filter) {
            seen.filters.push(filter.clone().into_owned());
        }
        if self.filter.as_deref().is_some_and(|wanted| filter != wanted) {
            return Ok(false);
        }
        for condition in &self.conditions {
            if !condition.is_true(sample)? {
                return Ok(false);
            }
        }
        let Some(wanted) = self.outcome else { return Ok(true) };
        let outcome = sample.outcome();
        seen.outcomes[outcome as usize] += 1;
        Ok(outcome == wanted)
    }
}

/// An order of samples.
#[derive(Clone, Debug)]
pub struct Sort {
    field: Expression,
    is_descending: bool,
}

impl Sort {
    /// Parses a field or an expression; `-` in front of it means descending.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (is_descending, text) = match text.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Ok(Self { field: Expression::field(text, "--sort"), is_descending })
    }

    /// The field or expression.
    pub fn field(&self) -> &Expression {
        &self.field
    }

    fn compare(&self, left: &Key, right: &Key) -> Ordering {
        match (left, right) {
            (Key::Missing, Key::Missing) => Ordering::Equal,
            // Last in both directions.
            (Key::Missing, _) => Ordering::Greater,
            (_, Key::Missing) => Ordering::Less,
            _ if self.is_descending => right.cmp(left),
            _ => left.cmp(right),
        }
    }
}

/// Where a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The index of the reader that was given to [`find`].
    pub file: usize,
    /// The offset of its line, for [`SampleReader::read_at`].
    pub offset: u64,
}

/// Counts of the samples read by a search.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Samples that were read.
    pub samples: usize,
    /// Samples that match.
    pub matching: usize,
    /// Filter pipelines that were met.
    pub filters: Vec<String>,
    /// Samples by outcome, in the order of [`Outcome::ALL`], if the query asks for one: those that match otherwise.
    pub outcomes: [usize; Outcome::ALL.len()],
}

/// The samples that [`find`] found.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// Matching samples in the order asked for, at most as many as the limit says.
    pub positions: Vec<Position>,
    /// Matching samples that lack the value to sort by, or have NaN there. They come last.
    pub unsorted: usize,
    /// Counts of the samples read.
    pub seen: Seen,
}

/// Reads matching samples in the order of the files, until there are `limit` of them.
///
/// `each` gets the index of the reader and the sample.
pub fn visit<E: From<Error>>(
    readers: &mut [SampleReader],
    query: &Query,
    limit: Option<usize>,
    mut each: impl FnMut(usize, &Sample<'_>) -> Result<(), E>,
) -> Result<Seen, E> {
    let mut seen = Seen::default();
    for (file, reader) in readers.iter_mut().enumerate() {
        reader.rewind()?;
        while limit.is_none_or(|limit| seen.matching < limit) {
            let Some(sample) = reader.read_next()? else { break };
            seen.samples += 1;
            if query.matches(&sample, &mut seen)? {
                seen.matching += 1;
                each(file, &sample)?;
            }
        }
    }
    Ok(seen)
}

/// Finds the samples that match, in the order of the files or of `sort`.
///
/// Keeps only positions and the values to sort by; with a limit, only those that can still be among the first.
pub fn find(
    readers: &mut [SampleReader],
    query: &Query,
    sort: Option<&Sort>,
    limit: Option<usize>,
) -> Result<Matches, Error> {
    let Some(sort) = sort else {
        let mut positions = Vec::new();
        let seen = visit(readers, query, limit, |file, sample| {
            positions.push(Position { file, offset: sample.offset() });
            Ok::<(), Error>(())
        })?;
        return Ok(Matches { positions, unsorted: 0, seen });
    };
    let limit = limit.unwrap_or(usize::MAX);
    let most = limit.saturating_mul(2).saturating_add(1024);
    let mut keyed: Vec<(Key, Position)> = Vec::new();
    let mut unsorted = 0;
    let seen = visit(readers, query, None, |file, sample| {
        let key = Key::of(sort.field.value(sample)?);
        unsorted += usize::from(key == Key::Missing);
        keyed.push((key, Position { file, offset: sample.offset() }));
        if keyed.len() >= most {
            put_in_order(&mut keyed, sort, limit);
        }
        Ok::<(), Error>(())
    })?;
    if seen.matching > 0 && unsorted == seen.matching {
        let text = sort.field.text();
        return Err(Diagnostic::new(format!("No sample has a value of `{text}` to sort by")).into());
    }
    put_in_order(&mut keyed, sort, limit);
    let positions = keyed.into_iter().map(|(_, position)| position).collect();
    Ok(Matches { positions, unsorted, seen })
}

/// Sorts and keeps the first. Samples with equal values stay in the order of the files.
fn put_in_order(keyed: &mut Vec<(Key, Position)>, sort: &Sort, limit: usize) {
    keyed.sort_by(|left, right| sort.compare(&left.0, &right.0));
    keyed.truncate(limit);
}

/// A value to sort by: numbers, then strings, then everything else by its JSON.
#[derive(Clone, Debug)]
enum Key {
    Number(f64),
    Text(Box<str>),
    Other(Box<str>),
    /// No value, or NaN.
    Missing,
}

impl Key {
    fn of(value: Option<Value>) -> Self {
        match value {
            None | Some(Value::None) => Self::Missing,
            Some(Value::Str(text)) => Self::Text((*text).into()),
            Some(value) => match value.to_f64() {
                Some(number) if number.is_nan() => Self::Missing,
                Some(number) => Self::Number(number),
                None => {
                    let json = json::dumps(&value, &json::Options::default());
                    Self::Other(json.unwrap_or_else(|_| repr::repr(&value)).into())
                }
            },
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |key: &Self| match key {
            Self::Number(_) => 0,
            Self::Text(_) => 1,
            Self::Other(_) => 2,
            Self::Missing => 3,
        };
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => {
                // 0 and -0 are the same number.
                left.partial_cmp(right).unwrap_or_else(|| left.total_cmp(right))
            }
            (Self::Text(left), Self::Text(right)) | (Self::Other(left), Self::Other(right)) => {
                left.cmp(right)
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}
