//! The metric `exact_match`.

use std::borrow::Cow;

use lmeval_pycompat::re::{Flags, Regex};
use lmeval_pycompat::strings::lower;
use lmeval_pycompat::{Dict, Value, repr};

use super::GENERATION;
use crate::aggregation::Mean;
use crate::error::MetricError;
use crate::item::items;
use crate::metric::Metric;
use crate::number::Number;
use crate::options::{OptionEntry, OptionKind, OptionTable};
use crate::reduction::PassAtK;

/// `exact_match`: 1 for each answer that equals a target, else 0.
///
/// Before the comparison, answers and targets are stripped, in this order, of matches of `regexes_to_ignore`, case
/// (`ignore_case`), the 32 ASCII punctuation characters (`ignore_punctuation`), and ASCII digits (`ignore_numbers`).
/// A list as the target means several targets, like `multiple_targets`.
pub fn exact_match() -> Metric<Number> {
    Metric::new("exact_match", GENERATION, Mean, |kwargs| {
        let options = ExactMatch::from_kwargs(kwargs)?;
        Ok(Box::new(move |input| {
            let (references, predictions) = input.generation()?;
            options.score(references, predictions)
        }))
    })
    .with_reduction(PassAtK::default(), Mean)
    .with_options(OptionTable::strict(OPTIONS))
}

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("multiple_targets", OptionKind::Truth, "False"),
    OptionEntry::optional("regexes_to_ignore", OptionKind::Patterns, "None"),
    OptionEntry::optional("ignore_case", OptionKind::Truth, "False"),
    OptionEntry::optional("ignore_punctuation", OptionKind::Truth, "False"),
    OptionEntry::optional("ignore_numbers", OptionKind::Truth, "False"),
];

/// The comparison of `exact_match` with its options.
#[derive(Debug, Default)]
pub struct ExactMatch {
    /// Whether the references are alternatives, any of which is acceptable.
    pub multiple_targets: bool,
    /// Patterns whose matches are deleted.
    pub regexes_to_ignore: Vec<Regex>,
    /// Whether case is ignored.
    pub ignore_case: bool,
    /// Whether ASCII punctuation is deleted.
    pub ignore_punctuation: bool,
    /// Whether ASCII digits are deleted.
    pub ignore_numbers: bool,
}

/// A string, or another value that is compared unchanged.
#[derive(Clone, Debug)]
enum Cell<'a> {
    Text(Cow<'a, str>),
    Other(&'a Value),
}

impl ExactMatch {
    /// Reads the options; rejects unknown ones.
    pub fn from_kwargs(kwargs: &Dict) -> Result<Self, MetricError> {
        let mut options = Self::default();
        for (name, value) in kwargs.iter() {
            match name.as_str().unwrap_or_default() {
                "multiple_targets" => options.multiple_targets = value.is_truthy(),
                "regexes_to_ignore" => options.regexes_to_ignore = patterns(value)?,
                "ignore_case" => options.ignore_case = value.is_truthy(),
                "ignore_punctuation" => options.ignore_punctuation = value.is_truthy(),
                "ignore_numbers" => options.ignore_numbers = value.is_truthy(),
                _ => {
                    return Err(MetricError::UnknownOption {
                        metric: "exact_match",
                        option: repr::str(name),
                    });
                }
            }
        }
        Ok(options)
    }

    /// Scores each prediction as 1 or 0.
    pub fn score(&self, references: &[Value], predictions: &[Value]) -> Result<Vec<Number>, MetricError> {
        let list = references.first().and_then(items);
        if self.multiple_targets || list.is_some() {
            let targets = self.normalise(list.unwrap_or(references))?;
            let predictions = self.normalise(predictions)?;
            let matches = |prediction| targets.iter().any(|target| equal(prediction, target));
            return Ok(predictions.iter().map(matches).map(Number::from).collect());
        }
        let left = self.normalise(predictions)?;
        let right = self.normalise(references)?;
        let score = |(left, right)| Number::from(equal(left, right));
        match (&left[..], &right[..]) {
            (left, [right]) => Ok(left.iter().map(|left| score((left, right))).collect()),
            ([left], right) => Ok(right.iter().map(|right| score((left, right))).collect()),
            (left, right) if left.len() == right.len() => Ok(left.iter().zip(right).map(score).collect()),
            _ => Err(MetricError::Shapes { predictions: left.len(), references: right.len() }),
        }
    }

    fn normalise<'a>(&self, side: &'a [Value]) -> Result<Vec<Cell<'a>>, MetricError> {
        let mut cells = column(side);
        if !self.regexes_to_ignore.is_empty() {
            for cell in &mut cells {
                let mut text = cell.take_text();
                for regex in &self.regexes_to_ignore {
                    text = regex.remove_all(text)?;
                }
                *cell = Cell::Text(text);
            }
        }
        if self.ignore_case {
            lower_all(&mut cells)?;
        }
        let deleted = |character: char| {
            (self.ignore_punctuation && character.is_ascii_punctuation())
                || (self.ignore_numbers && character.is_ascii_digit())
        };
        if self.ignore_punctuation || self.ignore_numbers {
            for cell in &mut cells {
                let text = cell.take_text();
                *cell = Cell::Text(if text.contains(deleted) {
                    Cow::Owned(text.replace(deleted, ""))
                } else {
                    text
                });
            }
        }
        Ok(cells)
    }
}

impl<'a> Cell<'a> {
    /// Python's `str` of the cell; leaves it empty.
    fn take_text(&mut self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => std::mem::take(text),
            Self::Other(value) => Cow::Owned(repr::str(value)),
        }
    }
}

/// The values of one side. Reference: numbers among strings are converted, as in a numpy array.
fn column(side: &[Value]) -> Vec<Cell<'_>> {
    let some_text = side.iter().any(|value| value.as_str().is_some());
    let plain = side.iter().all(|value| value.as_str().is_some() || value.to_f64().is_some());
    side.iter()
        .map(|value| match value {
            Value::Str(text) => Cell::Text(Cow::Borrowed(text)),
            _ if some_text && plain => Cell::Text(Cow::Owned(repr::str(value))),
            _ => Cell::Other(value),
        })
        .collect()
}

fn lower_all(cells: &mut [Cell<'_>]) -> Result<(), MetricError> {
    let is_ascii = |cell: &Cell<'_>| matches!(cell, Cell::Text(text) if text.is_ascii());
    if cells.iter().all(is_ascii) {
        for cell in cells {
            if let Cell::Text(text) = cell
                && text.bytes().any(|byte| byte.is_ascii_uppercase())
            {
                text.to_mut().make_ascii_lowercase();
            }
        }
        return Ok(());
    }
    let mut longest = 0;
    for cell in &*cells {
        match cell {
            Cell::Text(text) => longest = longest.max(text.chars().count()),
            Cell::Other(value) => {
                return Err(MetricError::wrong_value("a string if `ignore_case` is set", value));
            }
        }
    }
    for cell in cells {
        if let Cell::Text(text) = cell {
            let lowered = lower(text);
            // Reference: a string column has a fixed width, which truncates a longer lower-case form.
            *text = Cow::Owned(match lowered.char_indices().nth(longest) {
                Some((end, _)) => lowered[..end].to_owned(),
                None => lowered,
            });
        }
    }
    Ok(())
}

fn equal(left: &Cell<'_>, right: &Cell<'_>) -> bool {
    match (left, right) {
        // Reference: numpy pads strings with NUL characters.
        (Cell::Text(left), Cell::Text(right)) => left.trim_end_matches('\0') == right.trim_end_matches('\0'),
        (Cell::Other(left), Cell::Other(right)) => left == right,
        _ => false,
    }
}

fn patterns(value: &Value) -> Result<Vec<Regex>, MetricError> {
    let wrong = |value: &Value| MetricError::WrongOption {
        option: "regexes_to_ignore",
        expected: "a list of regular expressions",
        found: value.type_name(),
    };
    let texts: Vec<String> = match value {
        _ if !value.is_truthy() => Vec::new(),
        // Reference: a string is a list of its characters.
        Value::Str(text) => text.chars().map(String::from).collect(),
        _ => items(value)
            .ok_or_else(|| wrong(value))?
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect::<Result<_, _>>()?,
    };
    texts.iter().map(|text| Ok(Regex::new(text, Flags::default())?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::MetricInput;

    fn score(references: &str, predictions: &str, kwargs: &str) -> Result<Vec<i64>, MetricError> {
        let read = |text: &str| lmeval_pycompat::literal::literal_eval(text).unwrap();
        let (references, predictions, kwargs) = (read(references), read(predictions), read(kwargs));
        let input = MetricInput::Generation {
            references: references.as_list().unwrap(),
            predictions: predictions.as_list().unwrap(),
        };
        let values = exact_match().compute(input, kwargs.as_dict().unwrap())?;
        Ok(values.iter().map(|value| value.to_f64() as i64).collect())
    }

    #[test]
    fn matches_documented_table() {
        for (references, predictions, kwargs, expected) in [
            ("[42]", "['42', 'x']", "{}", &[0, 0][..]),
            ("[42]", "['42', 'x']", "{'regexes_to_ignore': [',']}", &[1, 0]),
            ("[42]", "['42', 'x']", "{'ignore_punctuation': True}", &[1, 0]),
            ("[42]", "['42', 'x']", "{'ignore_numbers': True}", &[1, 0]),
            ("[42]", "['42']", "{'ignore_case': True, 'regexes_to_ignore': [',']}", &[1]),
            ("['a']", "['a', 'b']", "{}", &[1, 0]),
            ("['Hello']", "['hello!']", "{'ignore_case': True, 'ignore_punctuation': True}", &[1]),
            ("['x']", "['THE x']", "{'regexes_to_ignore': ['the '], 'ignore_case': True}", &[0]),
            ("['a']", "['a。']", "{'ignore_punctuation': True}", &[0]),
            ("[['a', 'b']]", "['b', 'c']", "{'multiple_targets': True}", &[1, 0]),
            ("[['a', 'b']]", "['b', 'c']", "{}", &[1, 0]),
            ("[[]]", "['b']", "{}", &[0]),
            ("[[1, 'b']]", "['1']", "{}", &[1]),
            ("[[1, 2]]", "['1']", "{}", &[0]),
            ("['None']", "[None]", "{'ignore_punctuation': True}", &[1]),
            ("[3.0]", "['3.0']", "{'regexes_to_ignore': ['x']}", &[1]),
            ("['a']", "['a\\0\\0']", "{}", &[1]),
            ("['a']", "['a ']", "{}", &[0]),
            ("['ab']", "['xaby']", "{'regexes_to_ignore': 'xy'}", &[1]),
            ("['a', 'b']", "['a', 'c']", "{}", &[1, 0]),
            ("['']", "[]", "{}", &[]),
            ("[3]", "[3.0]", "{}", &[1]),
        ] {
            let found = score(references, predictions, kwargs);
            assert_eq!(found.as_deref(), Ok(expected), "{references} {predictions} {kwargs}");
        }
    }

    #[test]
    fn error_messages() {
        for (references, predictions, kwargs, expected) in [
            ("[42]", "['42']", "{'ignore_case': True}", "ignore_case"),
            ("['a']", "['b']", "{'k': 1}", "`exact_match` has no option `k`"),
            ("['a']", "['b']", "{'regexes_to_ignore': ['(']}", "("),
            ("['a']", "['b']", "{'regexes_to_ignore': [1]}", "`int`"),
            ("['a', 'b']", "['b', 'c', 'd']", "{}", "3 predictions with 2 references"),
        ] {
            let error = score(references, predictions, kwargs).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
