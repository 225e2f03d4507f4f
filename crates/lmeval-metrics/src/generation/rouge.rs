//! The ROUGE metrics.

use std::collections::{BTreeSet, HashMap};

use lmeval_pycompat::strings::lower;
use lmeval_pycompat::{Dict, Value};

use super::GENERATION;
use super::ngrams::{count_ngrams, shared, total_ngrams};
use super::porter::stem;
use crate::aggregation::Mean;
use crate::error::MetricError;
use crate::item::items;
use crate::metric::Metric;
use crate::number::Number;
use crate::options::{OptionEntry, OptionKind, OptionTable};
use crate::vector::argmax;

/// The units that ROUGE compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RougeKind {
    /// Word n-grams: `rouge1`, `rouge2`, …
    Ngrams(usize),
    /// The longest common subsequence: `rougeL`.
    Longest,
    /// The union of longest common subsequences over the lines: `rougeLsum`.
    LongestOfLines,
}

/// Precision, recall and their harmonic mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RougeScore {
    /// The fraction of the prediction found in the target.
    pub precision: f64,
    /// The fraction of the target found in the prediction.
    pub recall: f64,
    /// `2PR / (P + R)`; 0 if undefined.
    pub fmeasure: f64,
}

impl RougeScore {
    fn new(hits: usize, predicted: usize, targets: usize) -> Self {
        let precision = hits as f64 / predicted as f64;
        let recall = hits as f64 / targets as f64;
        let fmeasure =
            if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 };
        Self { precision, recall, fmeasure }
    }
}

/// ROUGE of a prediction, as computed by the `rouge_score` package. On a scale from 0 to 1.
///
/// Words are runs of ASCII letters and digits in lower case; with `use_stemmer`, words of more than three characters
/// are stemmed.
pub fn rouge(kind: RougeKind, target: &str, prediction: &str, use_stemmer: bool) -> RougeScore {
    let tokens = |text: &str| tokenize(text, use_stemmer);
    match kind {
        RougeKind::Ngrams(order) => ngrams(&tokens(target), &tokens(prediction), order),
        RougeKind::Longest => longest(&tokens(target), &tokens(prediction)),
        RougeKind::LongestOfLines => {
            let lines = |text: &str| -> Vec<Vec<String>> {
                text.split('\n').filter(|line| !line.is_empty()).map(tokens).collect()
            };
            longest_of_lines(&lines(target), &lines(prediction))
        }
    }
}

/// ROUGE against several targets: the score with the highest f-measure; ties go to the first.
pub fn rouge_multi(
    kind: RougeKind,
    targets: &[&str],
    prediction: &str,
    use_stemmer: bool,
) -> Result<RougeScore, MetricError> {
    let scores: Vec<RougeScore> =
        targets.iter().map(|target| rouge(kind, target, prediction, use_stemmer)).collect();
    let measures: Vec<f64> = scores.iter().map(|score| score.fmeasure).collect();
    let best = argmax(&measures).map_err(|_| MetricError::NoReference { document: 0 })?;
    Ok(scores[best])
}

/// `rouge1`, `rouge2`, `rougeL` or `rougeLsum` as a metric: the f-measure of each answer. Option: `use_stemmer`.
pub(crate) fn rouge_metric(name: &'static str, kind: RougeKind) -> Metric<Number> {
    Metric::new(name, GENERATION, Mean, move |kwargs: &Dict| {
        let use_stemmer = kwargs.get_str("use_stemmer").is_some_and(Value::is_truthy);
        Ok(Box::new(move |input| {
            let (references, predictions) = input.generation()?;
            let targets = texts(references.first().and_then(items).unwrap_or(references))?;
            let predictions = texts(predictions)?;
            predictions
                .into_iter()
                .map(|text| Ok(Number::Float(rouge_multi(kind, &targets, text, use_stemmer)?.fmeasure)))
                .collect()
        }))
    })
    .with_options(OptionTable::lenient(OPTIONS))
}

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("multiple_targets", OptionKind::Truth, "False"),
    OptionEntry::optional("use_stemmer", OptionKind::Truth, "False"),
];

/// Extracts strings; fails on other values.
pub(super) fn texts(values: &[Value]) -> Result<Vec<&str>, MetricError> {
    let text = |value| Value::as_str(value).ok_or_else(|| MetricError::wrong_value("text", value));
    values.iter().map(text).collect()
}

fn tokenize(text: &str, use_stemmer: bool) -> Vec<String> {
    lower(text)
        .split(|character: char| !character.is_ascii_lowercase() && !character.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .map(|word| if use_stemmer && word.len() > 3 { stem(word) } else { word.to_owned() })
        .collect()
}

fn ngrams(target: &[String], prediction: &[String], order: usize) -> RougeScore {
    if order == 0 {
        return RougeScore::default();
    }
    let hits = shared(&count_ngrams(target, order), &count_ngrams(prediction, order));
    let total = |tokens: &[String]| total_ngrams(tokens.len(), order).max(1) as usize;
    RougeScore::new(hits as usize, total(prediction), total(target))
}

fn longest(target: &[String], prediction: &[String]) -> RougeScore {
    if target.is_empty() || prediction.is_empty() {
        return RougeScore::default();
    }
    let table = subsequences(target, prediction);
    let length = table.last().and_then(|row| row.last()).copied().unwrap_or_default();
    RougeScore::new(length as usize, prediction.len(), target.len())
}

/// The lengths of the longest common subsequences of all prefixes.
fn subsequences(target: &[String], prediction: &[String]) -> Vec<Vec<u32>> {
    let mut rows = vec![vec![0; prediction.len() + 1]];
    for word in target {
        let above = &rows[rows.len() - 1];
        let mut row = vec![0; prediction.len() + 1];
        for (column, other) in prediction.iter().enumerate() {
            row[column + 1] =
                if word == other { above[column] + 1 } else { above[column + 1].max(row[column]) };
        }
        rows.push(row);
    }
    rows
}

fn longest_of_lines(target: &[Vec<String>], prediction: &[Vec<String>]) -> RougeScore {
    let total = |lines: &[Vec<String>]| lines.iter().map(Vec::len).sum::<usize>();
    let (targets, predicted) = (total(target), total(prediction));
    if targets == 0 || predicted == 0 {
        return RougeScore::default();
    }
    let (mut target_counts, mut prediction_counts) = (word_counts(target), word_counts(prediction));
    let mut hits = 0;
    for line in target {
        let common: BTreeSet<usize> =
            prediction.iter().flat_map(|other| common_positions(line, other)).collect();
        for position in common {
            let word = line[position].as_str();
            // A word counts as often as it occurs on both sides.
            if let (Some(left @ 1..), Some(right @ 1..)) =
                (target_counts.get_mut(word), prediction_counts.get_mut(word))
            {
                hits += 1;
                *left -= 1;
                *right -= 1;
            }
        }
    }
    RougeScore::new(hits, predicted, targets)
}

fn word_counts(lines: &[Vec<String>]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for word in lines.iter().flatten() {
        *counts.entry(word.as_str()).or_default() += 1;
    }
    counts
}

/// The indices in `line` of one longest common subsequence, in reverse.
fn common_positions(line: &[String], other: &[String]) -> Vec<usize> {
    let table = subsequences(line, other);
    let (mut row, mut column) = (line.len(), other.len());
    let mut positions = Vec::new();
    while row > 0 && column > 0 {
        if line[row - 1] == other[column - 1] {
            row -= 1;
            column -= 1;
            positions.push(row);
        } else if table[row][column - 1] > table[row - 1][column] {
            column -= 1;
        } else {
            row -= 1;
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::MetricInput;

    #[test]
    fn compares_words_subsequences_and_lines() {
        let (target, prediction) =
            ("The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log.");
        let fmeasure = |kind| rouge(kind, target, prediction, true).fmeasure;
        assert_eq!(fmeasure(RougeKind::Ngrams(1)), 0.7058823529411765);
        assert_eq!(rouge(RougeKind::Ngrams(1), target, prediction, true).precision, 0.75);
        assert_eq!(fmeasure(RougeKind::Ngrams(2)), 0.26666666666666666);
        assert_eq!(fmeasure(RougeKind::Longest), 0.5882352941176471);
        assert_eq!(fmeasure(RougeKind::LongestOfLines), 0.5882352941176471);
        let empty = rouge(RougeKind::LongestOfLines, "\n", "a", false);
        assert_eq!(empty, RougeScore::default());
    }

    #[test]
    fn uses_the_best_target() {
        let metric = rouge_metric("rouge1", RougeKind::Ngrams(1));
        let targets = Value::list(["a b".into(), "c d".into()]);
        let input =
            MetricInput::Generation { references: &[targets], predictions: &["c d".into(), "x".into()] };
        let values = metric.compute(input, &Dict::new()).unwrap();
        assert_eq!(values, [Number::Float(1.0), Number::Float(0.0)]);
        let none = MetricInput::Generation { references: &[Value::list([])], predictions: &["c".into()] };
        assert!(metric.compute(none, &Dict::new()).is_err());
    }
}
