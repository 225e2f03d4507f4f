//! Construction of pipelines from configuration.

use std::sync::Arc;

use super::error::ScoreError;
use super::gen_scorer::GenScorer;
use super::ll_scorer::LLScorer;
use super::metric::PipelineMetric;
use super::pipeline::ScoringPipeline;
use super::registered_scorer::{self, RegisteredScorer};
use super::resolve::resolve_metric;
use super::scorer::Scorer;
use super::spec::{MetricSpec, PipelineSpec, ScorerSpec};
use crate::filters::{FilterContext, FilterSpec};
use crate::host::{Host, NoHost};
use crate::registry::{Registry, default_metrics};
use lmeval_core::Dialect;
use lmeval_core::OutputType;

/// The environment in which scorers are built.
#[derive(Clone, Debug)]
pub struct ScoringSources {
    /// Resolves every name in a task.
    pub registry: Registry,
    /// Runs the filters and scoring functions that are Python code.
    pub host: Arc<dyn Host>,
    /// The rules of the run.
    pub dialect: Dialect,
}

impl ScoringSources {
    /// The built-in registry without Python.
    pub fn new(dialect: &Dialect) -> Self {
        Self { registry: Registry::default(), host: Arc::new(NoHost), dialect: *dialect }
    }

    /// Replaces the registry.
    pub fn with_registry(mut self, registry: &Registry) -> Self {
        self.registry = registry.clone();
        self
    }
}

/// Properties of a task that all its pipelines share.
#[derive(Clone, Copy, Debug)]
pub struct TaskFacts<'a> {
    /// The output type of the task.
    pub output_type: OutputType,
    /// The scorer named by the task.
    pub scorer: Option<&'a ScorerSpec>,
    /// Whether task code computes the values, so that metrics of any output type are allowed.
    pub scores_itself: bool,
}

/// Builds a pipeline.
///
/// Filters come from the pipeline, else from the scorer, else there are none. Metrics come from the pipeline, else
/// from the scorer (even an empty list), else from the output type. Without a pipeline, the scorer decides everything
/// and lends the pipeline its name.
///
/// ```
/// use lmeval_scoring::scorers::{ScorerSpec, ScoringSources, TaskFacts, build_scorer};
/// use lmeval_core::{Dialect, OutputType};
///
/// let first_token = ScorerSpec { kind: "first_token".to_owned(), kwargs: Default::default() };
/// let facts = TaskFacts { output_type: OutputType::GenerateUntil, scorer: Some(&first_token), scores_itself: false };
/// let pipeline = build_scorer(None, facts, &ScoringSources::new(&Dialect::V05)).unwrap();
/// assert_eq!(&**pipeline.name(), "first_token");
/// assert_eq!(&*pipeline.metrics()[0].name, "exact_match");
/// ```
pub fn build_scorer(
    pipeline: Option<&PipelineSpec>,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<ScoringPipeline, ScoreError> {
    let registered = facts.scorer.and_then(|spec| sources.registry.scorers.python(&spec.kind));
    let mut scorer = choose_scorer(facts, sources)?;
    let by_default;
    let pipeline = match pipeline {
        Some(pipeline) => pipeline,
        None => {
            by_default = PipelineSpec::new(scorer.name());
            &by_default
        }
    };
    let filters = choose_filters(pipeline, &*scorer, &sources.dialect);
    let context = FilterContext { dialect: sources.dialect, host: Arc::clone(&sources.host) };
    let ensemble = sources.registry.filter_ensemble(&pipeline.name, &filters, &context)?;
    let metrics = choose_metrics(pipeline, &*scorer, facts.output_type)
        .iter()
        .enumerate()
        .map(|(position, metric)| resolve_metric(position, metric, facts, sources))
        .collect::<Result<Vec<_>, _>>()?;
    if let (Some(spec), Some(registered)) = (facts.scorer, registered) {
        let config = registered_scorer::config(pipeline, &filters, spec, facts.output_type, sources);
        let made = sources.host.scorer(&registered.function, &config)?;
        scorer = Arc::new(RegisteredScorer::new(&spec.kind, registered)?.with_host(made));
    }
    let metrics = in_order(metrics, facts.output_type, &sources.dialect);
    Ok(ScoringPipeline::new(ensemble, metrics, scorer, facts.output_type, sources.dialect))
}

/// The filters and metrics that a pipeline has or gets from its scorer.
pub(super) fn chosen(
    pipeline: &PipelineSpec,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<(Vec<FilterSpec>, Vec<MetricSpec>), ScoreError> {
    let scorer = choose_scorer(facts, sources)?;
    let metrics = choose_metrics(pipeline, &*scorer, facts.output_type);
    Ok((choose_filters(pipeline, &*scorer, &sources.dialect), metrics))
}

fn choose_scorer(facts: TaskFacts<'_>, sources: &ScoringSources) -> Result<Arc<dyn Scorer>, ScoreError> {
    Ok(match (facts.scorer, facts.output_type) {
        (Some(spec), _) => match sources.registry.scorers.python(&spec.kind) {
            Some(registered) => Arc::new(RegisteredScorer::new(&spec.kind, registered)?),
            None => sources.registry.scorer(spec)?,
        },
        (None, OutputType::GenerateUntil) => Arc::new(GenScorer),
        (None, _) => Arc::new(LLScorer),
    })
}

/// Builds the pipeline of a predict-only run: no filters, and the metric `bypass`.
pub fn build_predict_only(
    output_type: OutputType,
    sources: &ScoringSources,
) -> Result<ScoringPipeline, ScoreError> {
    let pipeline = PipelineSpec { metrics: vec![MetricSpec::named("bypass")], ..PipelineSpec::new("none") };
    let facts = TaskFacts { output_type, scorer: None, scores_itself: true };
    build_scorer(Some(&pipeline), facts, sources)
}

fn choose_filters(pipeline: &PipelineSpec, scorer: &dyn Scorer, dialect: &Dialect) -> Vec<FilterSpec> {
    if !pipeline.filters.is_empty() {
        return pipeline.filters.clone();
    }
    match scorer.default_filters() {
        Some(filters) if !filters.is_empty() => filters,
        _ if dialect.scoring.default_filter_takes_first => vec![FilterSpec::named("take_first")],
        _ => Vec::new(),
    }
}

fn choose_metrics(pipeline: &PipelineSpec, scorer: &dyn Scorer, output_type: OutputType) -> Vec<MetricSpec> {
    if !pipeline.metrics.is_empty() {
        return pipeline.metrics.clone();
    }
    let of_type = || default_metrics(output_type).iter().map(|name| MetricSpec::named(name)).collect();
    scorer.default_metrics().unwrap_or_else(of_type)
}

/// Orders metrics as results show them.
fn in_order(
    mut metrics: Vec<PipelineMetric>,
    output_type: OutputType,
    dialect: &Dialect,
) -> Vec<PipelineMetric> {
    if !dialect.scoring.fixed_choice_order {
        return metrics;
    }
    let order: &[&str] = match output_type {
        OutputType::MultipleChoice => &[
            "acc",
            "f1",
            "mcc",
            "acc_norm",
            "acc_bytes",
            "exact_match",
            "brier_score",
            "likelihood",
            "acc_mutual_info",
        ],
        OutputType::Loglikelihood => &["perplexity", "acc"],
        OutputType::LoglikelihoodRolling => &["word_perplexity", "byte_perplexity", "bits_per_byte"],
        OutputType::GenerateUntil => &[],
    };
    metrics.sort_by_key(|metric| order.iter().position(|name| **name == *metric.name).unwrap_or(order.len()));
    metrics
}
