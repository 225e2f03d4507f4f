//! Resolution of metric configuration into metrics.

use std::sync::Arc;

use lmeval_metrics::AnyMetric;
use lmeval_pycompat::{Function, Value};

use super::build::{ScoringSources, TaskFacts};
use super::each_target::EachTarget;
use super::error::ScoreError;
use super::metric::{MetricAggregation, MetricFunction, MetricReduction, PipelineMetric};
use super::spec::{MetricSpec, Reference, Setting};
use super::task_code::HostMetric;
use crate::registry::{MetricEntry, Registered};
use lmeval_core::OutputType;

/// The aggregations for which the 0.4 line computes standard errors.
const LEGACY_STDERRS: [&str; 10] =
    ["mean", "median", "matthews_corrcoef", "f1", "perplexity", "bleu", "chrf", "chrf++", "ter", "nanmean"];

/// Resolves a metric from its configuration.
pub(super) fn resolve_metric(
    position: usize,
    spec: &MetricSpec,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<PipelineMetric, ScoreError> {
    let own;
    let is_by_reference = matches!(spec.metric, Reference::Function(_));
    let (spec, (name, registered, function)) = match registered_metric(spec, sources) {
        Some((metric, registered)) => {
            own = with_facts(spec, registered);
            (&own, resolve_registered(metric, registered, facts, sources)?)
        }
        None => (spec, resolve_function(spec, facts, sources)?),
    };
    if name.is_empty() || name.contains(',') {
        return Err(ScoreError::MetricName { metric: name.to_string() });
    }
    let known = sources.registry.metrics.get_rust(&name);
    let aggregation = match (&spec.aggregation, &registered) {
        (Setting::Given(Reference::Name(name)), _) => match sources.registry.aggregations.python(name) {
            Some(registered) => MetricAggregation::Host(sources.host.aggregation(&registered.function)?),
            None => MetricAggregation::Registered(Arc::clone(sources.registry.aggregation(name)?)),
        },
        (Setting::Given(Reference::Function(function)), _) => {
            MetricAggregation::Host(sources.host.aggregation(function)?)
        }
        (Setting::Inherited, Some(metric)) => MetricAggregation::Registered(metric.aggregation()),
        (Setting::Inherited, None) | (Setting::Null, _) => {
            MetricAggregation::Registered(Arc::clone(sources.registry.aggregation("mean")?))
        }
    };
    let reduction = match (&spec.reduction, &registered) {
        (Setting::Given(Reference::Name(name)), _) => match sources.registry.reductions.python(name) {
            Some(registered) => MetricReduction::Host(sources.host.reduction(&registered.function)?),
            None => MetricReduction::Registered(sources.registry.reduction(name)?),
        },
        (Setting::Given(Reference::Function(function)), _) => {
            MetricReduction::Host(sources.host.reduction(function)?)
        }
        (Setting::Inherited, Some(_))
            if sources.dialect.scoring.repeats_are_averaged && has_pass_at_k(known) =>
        {
            MetricReduction::Registered(sources.registry.reduction("mean")?)
        }
        (Setting::Inherited, Some(metric)) => MetricReduction::Registered(metric.reduction()),
        (Setting::Inherited, None) | (Setting::Null, _) => {
            MetricReduction::Registered(sources.registry.reduction("take_first")?)
        }
    };
    let higher_is_better = match (spec.higher_is_better, &registered) {
        (Setting::Given(direction), _) => Some(direction),
        (Setting::Inherited, Some(metric)) => Some(metric.higher_is_better()),
        (Setting::Inherited, None) | (Setting::Null, _) => {
            (!sources.dialect.scoring.unknown_direction_is_null).then_some(true)
        }
    };
    let mut kwargs = spec.kwargs.clone();
    // The switch only selects the source of the metric.
    kwargs.remove_str("hf_evaluate");
    if let MetricFunction::Registered(metric) = &function
        && !facts.scores_itself
    {
        // Report invalid options now, not after all answers have arrived.
        let bound = metric.bind(&kwargs);
        drop(bound.map_err(|source| ScoreError::Options { metric: name.to_string(), source })?);
    }
    Ok(PipelineMetric {
        aggregation_name: aggregation_name(spec, known),
        has_legacy_stderr: has_legacy_stderr(spec, known),
        needs_corpus: known.is_some_and(|entry| entry.facts.needs_corpus),
        is_by_reference,
        name,
        function,
        kwargs,
        aggregation,
        reduction,
        higher_is_better,
        position,
    })
}

/// Wraps a task function as a metric.
fn host_metric(
    name: &Arc<str>,
    function: &Arc<Function>,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<Arc<dyn HostMetric>, ScoreError> {
    let metric = sources.host.metric(function)?;
    let is_legacy = sources.dialect.scoring.legacy_values && facts.output_type == OutputType::GenerateUntil;
    Ok(if is_legacy { Arc::new(EachTarget { metric, name: Arc::clone(name) }) } else { metric })
}

/// The Python registration of the metric that a task names.
fn registered_metric<'a>(
    spec: &'a MetricSpec,
    sources: &'a ScoringSources,
) -> Option<(&'a Arc<str>, &'a Registered)> {
    let Reference::Name(name) = &spec.metric else { return None };
    sources.registry.metrics.python(name).map(|registered| (name, registered))
}

/// Fills the settings that a task omits with those given at registration.
fn with_facts(spec: &MetricSpec, registered: &Registered) -> MetricSpec {
    let part = |given: &Setting<Reference>, fact| match (given, registered.facts.get_str(fact)) {
        (Setting::Inherited, Some(Value::Str(name))) => Setting::Given(Reference::Name(Arc::clone(name))),
        (Setting::Inherited, Some(Value::Function(function))) => {
            Setting::Given(Reference::Function(Arc::clone(function)))
        }
        (Setting::Inherited, _) => Setting::Null,
        (given, _) => given.clone(),
    };
    let direction = match (spec.higher_is_better, registered.facts.get_str("higher_is_better")) {
        (Setting::Inherited, Some(Value::Bool(direction))) => Setting::Given(*direction),
        (given, _) => given,
    };
    MetricSpec {
        aggregation: part(&spec.aggregation, "aggregation"),
        reduction: part(&spec.reduction, "reduction"),
        higher_is_better: direction,
        ..spec.clone()
    }
}

fn resolve_registered(
    name: &Arc<str>,
    registered: &Registered,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<Resolved, ScoreError> {
    let made_for = registered.facts.get_str("output_type").and_then(Value::as_list);
    let made_for = made_for.map(|types| types.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    if let Some(made_for) = made_for.filter(|types| !types.contains(&facts.output_type.name()))
        && !facts.scores_itself
    {
        return Err(ScoreError::OutputType {
            metric: name.to_string(),
            made_for: made_for.into_iter().map(str::to_owned).collect(),
            output_type: facts.output_type,
        });
    }
    let called = MetricFunction::Host(host_metric(name, &registered.function, facts, sources)?);
    Ok((Arc::clone(name), None, called))
}

type Resolved = (Arc<str>, Option<Arc<dyn AnyMetric>>, MetricFunction);

fn resolve_function(
    spec: &MetricSpec,
    facts: TaskFacts<'_>,
    sources: &ScoringSources,
) -> Result<Resolved, ScoreError> {
    let name = match &spec.metric {
        Reference::Name(name) => name,
        Reference::Function(function) => {
            let name = function_name(function).into();
            let called = MetricFunction::Host(host_metric(&name, function, facts, sources)?);
            return Ok((name, None, called));
        }
    };
    let Some(metric) = sources.registry.metric(name) else {
        return Ok((Arc::clone(name), None, MetricFunction::Placeholder));
    };
    let fits = |metric: &Arc<dyn AnyMetric>| metric.output_types().contains(&facts.output_type);
    let aggregated_by_task = matches!(spec.aggregation, Setting::Given(Reference::Function(_)));
    let function = match facts.output_type {
        _ if facts.scores_itself || fits(metric) => MetricFunction::Registered(Arc::clone(metric)),
        // Reference: 0.4.13 scores whether a gold option is the greedy continuation.
        OutputType::MultipleChoice if &**name == "exact_match" => {
            let greedy = sources.registry.metric("exact_match_mc").unwrap_or(metric);
            let function = MetricFunction::Registered(Arc::clone(greedy));
            return Ok((Arc::clone(name), Some(Arc::clone(greedy)), function));
        }
        // Reference: 0.4.13 passes pairs of target and answer to the task's own aggregation, and to that of label
        // metrics, which the table lists for generation.
        OutputType::GenerateUntil
            if aggregated_by_task || metric.listed_for().contains(&OutputType::GenerateUntil) =>
        {
            MetricFunction::Pair
        }
        output_type => {
            return Err(ScoreError::OutputType {
                metric: name.to_string(),
                made_for: metric.output_types().iter().map(ToString::to_string).collect(),
                output_type,
            });
        }
    };
    Ok((Arc::clone(name), Some(Arc::clone(metric)), function))
}

/// The display name of a metric's aggregation.
fn aggregation_name(spec: &MetricSpec, metric: Option<&MetricEntry>) -> Arc<str> {
    match &spec.aggregation {
        Setting::Given(Reference::Name(name)) => Arc::clone(name),
        Setting::Given(Reference::Function(function)) => function_name(function).into(),
        Setting::Inherited => metric.and_then(|entry| entry.facts.aggregation).unwrap_or("mean").into(),
        Setting::Null => "mean".into(),
    }
}

/// The name of a function without its module.
fn function_name(function: &Function) -> &str {
    function.split().map_or(&*function.reference, |(_, name)| name)
}

fn has_pass_at_k(metric: Option<&MetricEntry>) -> bool {
    metric.is_some_and(|entry| entry.facts.reduction == Some("pass@k"))
}

fn has_legacy_stderr(spec: &MetricSpec, metric: Option<&MetricEntry>) -> bool {
    match &spec.aggregation {
        Setting::Given(Reference::Name(aggregation)) => LEGACY_STDERRS.contains(&&**aggregation),
        Setting::Given(Reference::Function(_)) => false,
        Setting::Null => true,
        // Reference: the 0.4 line aggregates Brier scores with a function for which it has no standard error.
        Setting::Inherited => metric.is_none_or(|entry| {
            entry.name != "brier_score"
                && entry.facts.aggregation.is_some_and(|own| LEGACY_STDERRS.contains(&own))
        }),
    }
}
