//! Pipelines that score all repeats of a task, whatever the task itself does with them.

use std::sync::Arc;

use lmeval_metrics::reduction_counts;

use super::build::{ScoringSources, TaskFacts, chosen};
use super::error::ScoreError;
use super::spec::{MetricSpec, PipelineSpec, Reference, Setting};
use crate::filters::{FilterFunction, FilterSpec};

/// Filters that leave one or a few of the repeats.
const SELECTING: [&str; 3] = ["take_first", "take_first_k", "majority_vote"];

/// The pipelines of a task with these reductions instead of its own.
///
/// Each pipeline keeps its filters, except for those that select repeats, and reduces each metric by every reduction.
/// `maj@k` is a vote on answers rather than on their scores, and so a pipeline of its own: `strict` becomes
/// `strict-maj@8`, whose last filter is `majority_vote`. Metrics of a whole corpus have no values of single documents
/// and stay as they are.
pub fn with_reductions(
    pipelines: &[PipelineSpec],
    reductions: &[Arc<str>],
    repeats: usize,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<Vec<PipelineSpec>, ScoreError> {
    let mut votes = Vec::new();
    let mut others = Vec::new();
    for name in reductions {
        let entry = sources.registry.reductions.find(name)?;
        let count = reduction_counts(&entry.name, name).unwrap_or_default().first().copied();
        if let Some(wanted) = count.filter(|count| *count > repeats) {
            return Err(ScoreError::TooFewRepeats { reduction: name.to_string(), wanted, repeats });
        }
        if &*entry.name == "maj@k" { votes.push((name, count)) } else { others.push(name) }
    }
    let mut all = Vec::new();
    for pipeline in pipelines {
        let (mut filters, metrics) = chosen(pipeline, facts, sources)?;
        filters.retain(|filter| !selects(filter));
        if filters.is_empty() {
            // Without any filter, the pipeline would get those of the scorer again.
            filters.push(FilterSpec::named("noop"));
        }
        if !others.is_empty() {
            let reduced = metrics.iter().flat_map(|metric| reduced(metric, &others, sources)).collect();
            all.push(PipelineSpec {
                name: pipeline.name.clone(),
                filters: filters.clone(),
                metrics: reduced,
            });
        }
        for (name, count) in &votes {
            let mut filters = filters.clone();
            if let Some(k) = count.filter(|count| *count < repeats) {
                let k = i64::try_from(k).unwrap_or(i64::MAX);
                filters.push(FilterSpec::named("take_first_k").with("k", k));
            }
            filters.push(FilterSpec::named("majority_vote"));
            let name = format!("{}-{}", pipeline.name, name.replace("_at_", "@"));
            all.push(PipelineSpec { name, filters, metrics: metrics.clone() });
        }
    }
    Ok(all)
}

fn selects(filter: &FilterSpec) -> bool {
    matches!(&filter.function, FilterFunction::Name(name) if SELECTING.contains(&name.as_str()))
}

/// A metric once per reduction.
fn reduced(metric: &MetricSpec, reductions: &[&Arc<str>], sources: &ScoringSources) -> Vec<MetricSpec> {
    let known = match &metric.metric {
        Reference::Name(name) => sources.registry.metrics.get_rust(name),
        Reference::Function(_) => None,
    };
    if known.is_some_and(|known| known.facts.needs_corpus) {
        return vec![metric.clone()];
    }
    let with = |name: &&Arc<str>| MetricSpec {
        reduction: Setting::Given(Reference::Name(Arc::clone(name))),
        ..metric.clone()
    };
    reductions.iter().map(with).collect()
}
