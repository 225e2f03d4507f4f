//! Reduction of a document's repeats to one value.

use std::sync::Arc;

use super::error::ScoreError;
use super::metric::{PipelineMetric, ReducedValue};
use super::scored::{ReducedDoc, ScoredDoc, Scores};

/// Reduces the values of a document.
///
/// A single value is unchanged. Several values go through the reduction of each metric of their name; if that returns
/// named results, each becomes a composite such as `pass@1(exact_match)`. A name without a metric keeps its first value;
/// [`unreduced`] finds such names, so that the pipeline can warn.
pub(super) fn reduce(scored: ScoredDoc, metrics: &[PipelineMetric]) -> Result<ReducedDoc, ScoreError> {
    let mut values = Scores::new();
    for (name, mut repeats) in scored.scores {
        if let [only] = repeats.as_mut_slice() {
            values.insert(name, std::mem::take(only));
            continue;
        }
        let mut reducing = metrics.iter().filter(|metric| metric.name == name).peekable();
        if reducing.peek().is_none() {
            let first = repeats
                .into_iter()
                .next()
                .ok_or_else(|| ScoreError::NoValue { metric: name.to_string(), document: scored.doc_id })?;
            values.insert(name, first);
            continue;
        }
        for metric in reducing {
            match metric.reduce(scored.doc_id, &scored.reference, &repeats)? {
                ReducedValue::One(value) => values.insert(Arc::clone(&name), value),
                ReducedValue::Named(named) => {
                    for (part, value) in named {
                        values.insert(format!("{part}({name})"), value);
                    }
                }
            }
        }
    }
    Ok(ReducedDoc { doc_id: scored.doc_id, values })
}

/// The names with several values per document that no metric of the pipeline can reduce, each once.
pub(super) fn unreduced(scored: &[ScoredDoc], metrics: &[PipelineMetric]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for (name, values) in scored.iter().flat_map(|scored| scored.scores.iter()) {
        let is_new = values.len() > 1 && !names.contains(name);
        if is_new && !metrics.iter().any(|metric| metric.name == *name) {
            names.push(Arc::clone(name));
        }
    }
    names
}

/// Merges the values of several processes; a later copy of a document reindices the earlier one in its position.
pub(crate) fn merge_reduced(parts: impl IntoIterator<Item = Vec<ReducedDoc>>) -> Vec<ReducedDoc> {
    let mut merged: Vec<ReducedDoc> = Vec::new();
    let mut indices = std::collections::HashMap::new();
    for document in parts.into_iter().flatten() {
        match indices.get(&document.doc_id) {
            Some(&index) => merged[index] = document,
            None => {
                indices.insert(document.doc_id, merged.len());
                merged.push(document);
            }
        }
    }
    merged
}
