//! Converts configurations into the specs that scorers read.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::filters::FilterSpec;
use lmeval_scoring::scorers::{
    MetricSpec, PipelineSpec, Reference, ScoreError, ScorerSpec, ScoringSources, Setting, TaskCode,
    TaskFacts, TaskScorer, build_predict_only, build_scorer, with_reductions,
};

use super::uses::{ComputedBy, ScoringUse, UseKind, scoring_uses};
use crate::config::{FilterPipeline, FilterStep, Given, MetricConfig, Named, ScorerConfig, TaskConfig};

/// Converts a metric.
pub fn metric_spec(config: &MetricConfig) -> MetricSpec {
    MetricSpec {
        metric: reference(&config.metric),
        aggregation: setting(&config.aggregation, reference),
        reduction: setting(&config.reduction, reference),
        higher_is_better: setting(&config.higher_is_better, |direction| *direction),
        kwargs: config.kwargs.clone(),
    }
}

/// Converts a pipeline.
pub fn pipeline_spec(config: &FilterPipeline) -> PipelineSpec {
    PipelineSpec {
        name: config.name.clone(),
        filters: config.filter.iter().map(filter_spec).collect(),
        metrics: config.metric_list.iter().map(metric_spec).collect(),
    }
}

/// Converts the reference to a scorer.
pub fn scorer_spec(config: &ScorerConfig) -> ScorerSpec {
    ScorerSpec { kind: config.kind.clone(), kwargs: config.kwargs.clone() }
}

/// Builds all pipelines of a task, or the single one of a predict-only run.
pub fn task_scorer(
    config: &TaskConfig,
    sources: &ScoringSources,
    predict_only: bool,
) -> Result<TaskScorer, ScoreError> {
    let output_type = config.output_type;
    if predict_only {
        let pipeline = build_predict_only(output_type, sources)?;
        return Ok(TaskScorer::new(vec![pipeline], output_type, sources.dialect));
    }
    // A metric that nothing computes fails here rather than after all answers have arrived.
    let nothing = |used: &ScoringUse| {
        used.kind == UseKind::Metric && matches!(used.by, ComputedBy::Evaluate | ComputedBy::Nobody)
    };
    if let Some(used) = scoring_uses(config, sources).into_iter().find(nothing) {
        return Err(ScoreError::NoFunction { metric: used.name });
    }
    let scorer = config.scorer.as_ref().map(scorer_spec);
    let facts = TaskFacts { output_type, scorer: scorer.as_ref(), scores_itself: config.scores_itself() };
    let mut pipelines: Vec<PipelineSpec> = config.filter_list.iter().map(pipeline_spec).collect();
    if !config.reductions.is_empty() {
        pipelines = with_reductions(&pipelines, &config.reductions, config.repeats, facts, sources)?;
    }
    let pipelines = pipelines
        .iter()
        .map(|pipeline| build_scorer(Some(pipeline), facts, sources))
        .collect::<Result<Vec<_>, _>>()?;
    let code: Option<Arc<dyn TaskCode>> =
        config.process_results.as_ref().map(|function| sources.host.process_results(function)).transpose()?;
    let mut context = Dict::new();
    if config.multiple_targets {
        context.insert("multiple_targets", Value::Bool(true));
    }
    Ok(TaskScorer::new(pipelines, output_type, sources.dialect).with_code(code).with_context(&context))
}

fn filter_spec(step: &FilterStep) -> FilterSpec {
    let spec = match &step.function {
        Named::Name(name) => FilterSpec::named(name.as_ref()),
        Named::Function(class) => FilterSpec::of_class(Arc::clone(class)),
    };
    spec.with_kwargs(step.kwargs.clone())
}

fn reference(named: &Named) -> Reference {
    match named {
        Named::Name(name) => Reference::Name(Arc::clone(name)),
        Named::Function(function) => Reference::Function(Arc::clone(function)),
    }
}

fn setting<T, U>(given: &Given<T>, convert: impl Fn(&T) -> U) -> Setting<U> {
    match given {
        Given::Absent => Setting::Inherited,
        Given::Null => Setting::Null,
        Given::Value(value) => Setting::Given(convert(value)),
    }
}
