//! Bounds of scores: what they were if every unfinished answer were wrong, and if every one were right.
//!
//! An answer is unfinished if its generation was cut off or refused, or if a filter found nothing in it. Bounds exist
//! for metrics whose values of all documents are between 0 and 1.

use std::sync::Arc;

use lmeval_core::{Finish, RequestType};
use lmeval_pycompat::Value;

use super::answered::AnsweredDocument;
use super::documents::Filtered;
use super::metric::{MetricReduction, PipelineMetric};
use super::metric_key::MetricKey;
use super::reduce::reduce;
use super::scored::{ReducedDoc, ScoredDoc, Scores};

/// The smallest and the largest score that complete answers could have led to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The score if every unfinished answer were wrong.
    pub low: f64,
    /// The score if every unfinished answer were right.
    pub high: f64,
}

/// Bounds by score.
pub type ScoreBounds = Vec<(MetricKey, Bounds)>;

/// A document with unfinished answers.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// Its index among the reduced documents.
    pub(super) index: usize,
    /// Its smallest values.
    pub(super) low: ReducedDoc,
    /// Its largest values.
    pub(super) high: ReducedDoc,
}

/// The documents with unfinished answers. `first` is the index of the first document among the reduced ones.
pub(super) fn unfinished(
    documents: &[AnsweredDocument],
    filtered: &Filtered,
    scored: &[ScoredDoc],
    metrics: &[PipelineMetric],
    first: usize,
) -> Vec<Unfinished> {
    // Task code is called once per document, with what the model answered.
    if metrics.iter().any(|metric| matches!(metric.reduction, MetricReduction::Host(_))) {
        return Vec::new();
    }
    let extremes = documents.iter().zip(scored).enumerate().filter_map(|(index, (document, scored))| {
        let repeats = unfinished_repeats(document, filtered, index)?;
        let with = |value: f64| reduce(replaced(scored, &repeats, value), metrics).ok();
        Some(Unfinished { index: first + index, low: with(0.0)?, high: with(1.0)? })
    });
    extremes.collect()
}

/// For each repeat of a document's generation, whether its answer is unfinished; `None` if all are finished.
fn unfinished_repeats(document: &AnsweredDocument, filtered: &Filtered, index: usize) -> Option<Vec<bool>> {
    let mut all = Vec::new();
    for (request, answer) in document.answers.iter().enumerate() {
        if answer.instance.request_type != RequestType::GenerateUntil {
            continue;
        }
        let mut repeats = vec![false; answer.responses.len()];
        for (repeat, finish) in answer.finishes().iter().enumerate() {
            repeats[repeat] = *finish != Finish::Complete;
        }
        for repeat in filtered.unmatched(index, request) {
            if let Some(is_unfinished) = repeats.get_mut(repeat) {
                *is_unfinished = true;
            }
        }
        all.extend(repeats);
    }
    all.contains(&true).then_some(all)
}

/// The values of a document if the unfinished repeats had this value. Values that do not belong to one repeat each are
/// replaced together.
fn replaced(scored: &ScoredDoc, repeats: &[bool], value: f64) -> ScoredDoc {
    let mut scores = Scores::new();
    for (name, values) in scored.scores.iter() {
        let is_per_repeat = values.len() == repeats.len();
        let replaced = values.iter().enumerate().map(|(repeat, own)| {
            if is_per_repeat && !repeats[repeat] { own.clone() } else { extreme(own, value) }
        });
        scores.insert(Arc::clone(name), replaced.collect());
    }
    ScoredDoc { scores, ..scored.clone() }
}

/// The smallest or largest value of the same form; any other value is unchanged.
fn extreme(own: &Value, value: f64) -> Value {
    match own {
        Value::Bool(_) => Value::Bool(value > 0.0),
        Value::Int(_) => Value::Int(value as i64),
        Value::Float(_) => Value::Float(value),
        Value::List(items) => Value::list(items.iter().map(|item| extreme(item, value))),
        other => other.clone(),
    }
}

/// Whether a value is between 0 and 1, or a list of such values.
pub(super) fn is_bounded(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Int(_) | Value::Float(_) => value.to_f64().is_some_and(|number| (0.0..=1.0).contains(&number)),
        Value::List(items) => !items.is_empty() && items.iter().all(is_bounded),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shares_are_bounded() {
        for value in [Value::Bool(true), Value::Int(0), Value::Float(0.3), Value::list([Value::Bool(false)])]
        {
            assert!(is_bounded(&value), "{value:?}");
        }
        let pair = Value::tuple([Value::str("a"), Value::str("b")]);
        for value in [Value::Int(7), Value::Float(f64::NAN), Value::str("1"), Value::list([]), pair] {
            assert!(!is_bounded(&value), "{value:?}");
        }
    }

    #[test]
    fn extremes_keep_the_form_of_a_value() {
        assert_eq!(extreme(&Value::Bool(false), 1.0), Value::Bool(true));
        assert_eq!(extreme(&Value::Int(1), 0.0), Value::Int(0));
        let list = Value::list([Value::Bool(true), Value::Bool(false)]);
        assert_eq!(extreme(&list, 0.0), Value::list([Value::Bool(false), Value::Bool(false)]));
    }
}
