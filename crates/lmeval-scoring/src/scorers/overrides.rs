//! The scoring steps that a Python scorer class overrides.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::aggregate::Aggregated;
use super::error::ScoreError;
use super::metric::text_keys;
use super::metric_key::MetricKey;
use super::scored::{ReducedDoc, ScoredDoc, Scores};
use super::task_code::HostScorer;
use crate::groups::Directions;

/// The steps that the class overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    pub(super) apply_filter: bool,
    /// Whether the class replaced the metrics it was configured with.
    pub(super) score: bool,
    pub(super) reduce: bool,
    pub(super) aggregate: bool,
    pub(super) higher_is_better: bool,
}

impl Overrides {
    pub(super) fn of(host: &dyn HostScorer) -> Self {
        let has = |step: &str| host.overridden_steps().iter().any(|own| own == step);
        let (aggregate, higher_is_better) = (has("aggregate"), has("higher_is_better"));
        Self {
            apply_filter: has("apply_filter"),
            score: has("score"),
            // Overrides of later steps may read the values of earlier ones, so the object must run those too.
            reduce: has("reduce") || aggregate || higher_is_better,
            aggregate,
            higher_is_better,
        }
    }
}

/// Reduces documents with the class.
pub(super) fn reduce(host: &dyn HostScorer, scored: &[ScoredDoc]) -> Result<Vec<ReducedDoc>, ScoreError> {
    let documents: Vec<Value> = scored
        .iter()
        .map(|scored| {
            let scores = scored.scores.iter();
            let lists = scores.map(|(name, values)| (Arc::clone(name), Value::list(values.iter().cloned())));
            Value::dict([
                ("doc_id", Value::Int(scored.doc_id.0 as i64)),
                ("reference", scored.reference.clone()),
                ("scores", Value::dict(lists)),
            ])
        })
        .collect();
    let answers = host.reduce(&documents)?;
    let reduced = scored.iter().zip(answers).map(|(scored, answer)| {
        let mut values = Scores::new();
        if let Some(given) = answer.as_dict() {
            for (name, value) in text_keys(given, scored.doc_id)? {
                if name.is_empty() || name.contains(',') {
                    return Err(ScoreError::MetricName { metric: name.to_string() });
                }
                values.insert(name, value);
            }
        }
        Ok(ReducedDoc { doc_id: scored.doc_id, values })
    });
    reduced.collect()
}

/// Aggregates documents with the class.
pub(super) fn aggregate(
    host: &dyn HostScorer,
    scorer: &str,
    reduced: &[ReducedDoc],
    bootstrap_iters: i64,
) -> Result<Aggregated, ScoreError> {
    let answer = host.aggregate(&pairs(reduced), bootstrap_iters)?;
    let part = |name: &str| answer.as_dict().and_then(|answer| answer.get_str(name));
    let mut aggregated = Aggregated::default();
    for (key, value) in part("metrics").and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
        let parsed = key.as_str().and_then(|key| key.parse::<MetricKey>().ok());
        let key = parsed.ok_or_else(|| ScoreError::ResultKey {
            scorer: scorer.to_owned(),
            key: lmeval_pycompat::repr::repr(key),
        })?;
        aggregated.metrics.push((key, value.clone()));
    }
    let count = part("sample_len").and_then(Value::as_i64).unwrap_or_default();
    aggregated.sample_len = usize::try_from(count).unwrap_or_default();
    Ok(aggregated)
}

/// The directions of metrics according to the class.
pub(super) fn higher_is_better(
    host: &dyn HostScorer,
    reduced: &[ReducedDoc],
) -> Result<Directions, ScoreError> {
    let answer = host.higher_is_better(&pairs(reduced))?;
    let mut directions = Directions::new();
    for (metric, direction) in answer.as_dict().into_iter().flat_map(Dict::iter) {
        if let Some(metric) = metric.as_str() {
            directions.insert(metric, (!direction.is_none()).then(|| direction.is_truthy()));
        }
    }
    Ok(directions)
}

/// Documents as pairs of index and values.
fn pairs(reduced: &[ReducedDoc]) -> Vec<Value> {
    let pair = |document: &ReducedDoc| {
        Value::list([Value::Int(document.doc_id.0 as i64), Value::from(document.to_dict())])
    };
    reduced.iter().map(pair).collect()
}
