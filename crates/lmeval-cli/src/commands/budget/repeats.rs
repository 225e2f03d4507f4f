//! The values of each repeat, as tasks are scored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use lmeval_analysis::budget::{RepeatsAt, pair};
use lmeval_analysis::stats::{Attempt, Reduction, with_repeats};
use lmeval_engine::Events;
use lmeval_pycompat::{Value, repr};
use lmeval_scoring::scorers::ScoringPipeline;

/// Collects scores of fewer repeats than there are, by task.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    found: Mutex<BTreeMap<String, Vec<RepeatsAt>>>,
}

impl Repeats {
    /// Takes what was collected since the last call.
    pub(super) fn take(&self) -> BTreeMap<String, Vec<RepeatsAt>> {
        std::mem::take(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Events for Repeats {
    fn values(&self, task: &str, pipelines: &[ScoringPipeline]) {
        let scores: Vec<RepeatsAt> = pipelines.iter().flat_map(of_pipeline).collect();
        if !scores.is_empty() {
            self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(task.to_owned(), scores);
        }
    }
}

/// The scores of a pipeline for 1, 2, 4, … repeats, and for all.
fn of_pipeline(pipeline: &ScoringPipeline) -> Vec<RepeatsAt> {
    let raw = pipeline.raw_docs();
    let Some(first) = raw.first() else { return Vec::new() };
    let mut all = Vec::new();
    for (metric, values) in first.scores.iter() {
        let count = values.len();
        let documents: Option<Vec<Vec<Attempt>>> = raw
            .iter()
            .enumerate()
            .map(|(index, document)| {
                let values = document.scores.get(metric).filter(|values| values.len() == count)?;
                attempts(values, pipeline.filtered(index))
            })
            .collect();
        let Some(documents) = documents.filter(|_| count > 1) else { continue };
        for reduction in Reduction::ALL {
            for k in counts(count) {
                let Some(estimate) = with_repeats(&documents, reduction, k) else { continue };
                all.push(RepeatsAt {
                    metric: metric.to_string(),
                    filter: pipeline.name().to_string(),
                    reduction: reduction.name().to_owned(),
                    k,
                    value: estimate.value,
                    interval: estimate.interval.map(pair),
                });
            }
        }
    }
    all
}

/// Powers of two up to a number, and the number.
fn counts(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1_usize), |power| power.checked_mul(2));
    powers.take_while(move |power| *power < most).chain([most])
}

/// The answers to one document with their values; `None` if a value is not a number, or repeats cannot be told apart.
fn attempts(values: &[Value], filtered: &[Vec<Value>]) -> Option<Vec<Attempt>> {
    let [answers] = filtered else { return None };
    if answers.len() != values.len() {
        return None;
    }
    let mut known: HashMap<String, usize> = HashMap::new();
    let attempt = |(value, answer): (&Value, &Value)| {
        let next = known.len();
        let answer = *known.entry(repr::repr(answer)).or_insert(next);
        Some(Attempt { value: value.to_f64().filter(|value| value.is_finite())?, answer })
    };
    values.iter().zip(answers).map(attempt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_up_to_all() {
        let list = |most| counts(most).collect::<Vec<_>>();
        assert_eq!(list(1), [1]);
        assert_eq!(list(4), [1, 2, 4]);
        assert_eq!(list(10), [1, 2, 4, 8, 10]);
    }

    #[test]
    fn equal_answers_are_one() {
        let answers = vec![vec![Value::str("7"), Value::Int(7), Value::str("7")]];
        let found = attempts(&[Value::Bool(true), Value::Float(0.5), Value::Int(1)], &answers).unwrap();
        assert_eq!(found.iter().map(|attempt| attempt.answer).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(attempts(&[Value::Int(1)], &answers), None);
        assert_eq!(attempts(&[Value::Int(1), Value::str("x"), Value::Int(1)], &answers), None);
    }
}
