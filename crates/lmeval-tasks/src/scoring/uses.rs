//! The names that the scoring of a task uses, and what computes them.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value, repr};
use lmeval_scoring::registry::{Code, OptionTable, Registry, UnknownOptions};
use lmeval_scoring::scorers::ScoringSources;

use crate::config::{ConfigPath, FilterStep, MetricConfig, Named, TaskConfig};

/// The role of a name in the scoring of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum UseKind {
    /// A step of `filter_list`.
    Filter,
    /// A metric of `metric_list`.
    Metric,
    /// The `aggregation` of a metric.
    Aggregation,
    /// The `reduction` of a metric.
    Reduction,
    /// The function that computes values in place of metrics.
    ProcessResults,
    /// The Python class that implements the task.
    TaskClass,
}

impl UseKind {
    /// The name of the role in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Metric => "metric",
            Self::Aggregation => "aggregation",
            Self::Reduction => "reduction",
            Self::ProcessResults => "function",
            Self::TaskClass => "class",
        }
    }
}

/// The code that computes a metric, filter, aggregation or reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComputedBy {
    /// Rust code: built in, or registered by the embedding program.
    Native,
    /// A Python function or class of the task.
    Function(Arc<Function>),
    /// Python code of the task that registers the name when it is imported.
    TaskCode,
    /// `process_results` or the task's class.
    ProcessResults,
    /// A custom scorer, which may report values under any name.
    Scorer,
    /// Python's `evaluate` package.
    Evaluate,
    /// Nothing: the name is unknown.
    Nobody,
}

impl fmt::Display for ComputedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "built in",
            Self::Function(_) | Self::TaskCode => "needs Python",
            Self::ProcessResults => "process_results",
            Self::Scorer => "scorer",
            Self::Evaluate => "needs evaluate",
            Self::Nobody => "unknown",
        })
    }
}

/// The effect of a keyword argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ArgumentUse {
    /// It is a known argument.
    Known,
    /// It is ignored.
    NoEffect,
    /// It is passed to custom code.
    PassedOn,
    /// It is an error.
    Refused,
}

impl fmt::Display for ArgumentUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known => "built in",
            Self::NoEffect => "no effect",
            Self::PassedOn => "passed on",
            Self::Refused => "refused",
        })
    }
}

/// One name that the scoring of a task uses.
#[derive(Clone, Debug)]
pub struct ScoringUse {
    /// The role of the name.
    pub kind: UseKind,
    /// The name, or the reference of a function.
    pub name: String,
    /// Where the name is in the configuration.
    pub path: ConfigPath,
    /// The code that computes it.
    pub by: ComputedBy,
    /// Its keyword arguments, in order.
    pub arguments: Vec<(String, ArgumentUse)>,
}

/// Every name that the scoring of a task uses, in the order of the file. Computes nothing.
pub fn scoring_uses(config: &TaskConfig, sources: &ScoringSources) -> Vec<ScoringUse> {
    let mut uses = Vec::new();
    let code = [
        (UseKind::TaskClass, "class", &config.class),
        (UseKind::ProcessResults, "process_results", &config.process_results),
    ];
    for (kind, key, function) in code {
        uses.extend(function.as_ref().map(|function| ScoringUse {
            kind,
            name: function.reference.clone(),
            path: ConfigPath::key(key),
            by: ComputedBy::Function(Arc::clone(function)),
            arguments: Vec::new(),
        }));
    }
    let mut seen: Vec<&ConfigPath> = Vec::new();
    for pipeline in &config.filter_list {
        uses.extend(pipeline.filter.iter().map(|step| filter_use(step, sources)));
        for metric in &pipeline.metric_list {
            // Pipelines that inherit the task's metrics share their paths.
            if !seen.contains(&&metric.path) {
                seen.push(&metric.path);
                metric_uses(config, metric, sources, &mut uses);
            }
        }
    }
    uses
}

fn filter_use(step: &FilterStep, sources: &ScoringSources) -> ScoringUse {
    let entry = step.function.name().and_then(|name| sources.registry.filters.get(name));
    let by = match &step.function {
        Named::Function(class) => ComputedBy::Function(Arc::clone(class)),
        Named::Name(_) => match (entry.map(|entry| &entry.code), step.kwargs.get_str("filter_fn")) {
            (Some(Code::BuiltIn(_)), Some(Value::Function(function))) if is_custom(step) => {
                ComputedBy::Function(Arc::clone(function))
            }
            (Some(Code::TaskCode), _) => ComputedBy::TaskCode,
            (Some(_), _) => ComputedBy::Native,
            (None, _) => ComputedBy::Nobody,
        },
    };
    ScoringUse {
        kind: UseKind::Filter,
        name: step.function.to_string(),
        path: step.path.then("function"),
        by,
        arguments: arguments(&step.kwargs, entry.map(|entry| &entry.options)),
    }
}

fn is_custom(step: &FilterStep) -> bool {
    step.function.name() == Some("custom")
}

fn metric_uses(
    config: &TaskConfig,
    metric: &MetricConfig,
    sources: &ScoringSources,
    uses: &mut Vec<ScoringUse>,
) {
    let registry = &sources.registry;
    let entry = metric.metric.name().and_then(|name| registry.metrics.get(name));
    let by = metric_by(config, metric, sources);
    let arguments = match by {
        // Reference: if the task computes the values, the arguments of metrics are ignored.
        ComputedBy::ProcessResults => arguments(&metric.kwargs, Some(&OptionTable::NONE)),
        ComputedBy::Native => arguments(&metric.kwargs, entry.map(|entry| &entry.options)),
        _ => arguments(&metric.kwargs, None),
    };
    let name = metric.metric.to_string();
    uses.push(ScoringUse { kind: UseKind::Metric, name, path: metric.path.then("metric"), by, arguments });
    let mut part = |kind, key: &str, named: Option<&Named>, is_known: &dyn Fn(&str) -> bool| {
        let Some(named) = named else { return };
        let by = match named {
            Named::Function(function) => ComputedBy::Function(Arc::clone(function)),
            Named::Name(name) if is_known(name) => ComputedBy::Native,
            Named::Name(_) => ComputedBy::Nobody,
        };
        let path = metric.path.then(key);
        uses.push(ScoringUse { kind, name: named.to_string(), path, by, arguments: Vec::new() });
    };
    let is_aggregation = |name: &str| registry.aggregations.get(name).is_some();
    part(UseKind::Aggregation, "aggregation", metric.aggregation.value(), &is_aggregation);
    let is_reduction = |name: &str| registry.reductions.get(name).is_some();
    part(UseKind::Reduction, "reduction", metric.reduction.value(), &is_reduction);
}

fn metric_by(config: &TaskConfig, metric: &MetricConfig, sources: &ScoringSources) -> ComputedBy {
    if config.scores_itself() {
        return ComputedBy::ProcessResults;
    }
    let registry = &sources.registry;
    if let Some(registered) = metric.metric.name().and_then(|name| registry.metrics.python(name)) {
        return ComputedBy::Function(Arc::clone(&registered.function));
    }
    match &metric.metric {
        Named::Function(function) => ComputedBy::Function(Arc::clone(function)),
        Named::Name(name) if has_own_scorer(config, registry) && registry.metric(name).is_none() => {
            ComputedBy::Scorer
        }
        Named::Name(name) if !asks_for_evaluate(metric) && registry.metric(name).is_some() => {
            ComputedBy::Native
        }
        Named::Name(name) if registry.needs_evaluate(name, config.output_type, asks_for_evaluate(metric)) => {
            ComputedBy::Evaluate
        }
        Named::Name(name) if registry.metric(name).is_some() => ComputedBy::Native,
        Named::Name(_) => ComputedBy::Nobody,
    }
}

/// Whether the task names a scorer that is not built in.
pub(crate) fn has_own_scorer(config: &TaskConfig, registry: &Registry) -> bool {
    let is_built_in =
        |name: &str| registry.scorers.iter().any(|entry| entry.is_built_in() && entry.name == name);
    config.scorer.as_ref().is_some_and(|scorer| !is_built_in(&scorer.kind))
}

/// Whether the entry requests the metric of Python's `evaluate` package.
pub(crate) fn asks_for_evaluate(metric: &MetricConfig) -> bool {
    metric.kwargs.get_str("hf_evaluate") == Some(&Value::Bool(true))
}

fn arguments(given: &Dict, table: Option<&OptionTable>) -> Vec<(String, ArgumentUse)> {
    let use_of = |name: &str| match table {
        None => ArgumentUse::PassedOn,
        Some(table) if table.get(name).is_some() || name == "hf_evaluate" => ArgumentUse::Known,
        Some(table) => match table.unknown {
            UnknownOptions::Ignored => ArgumentUse::NoEffect,
            UnknownOptions::Rejected => ArgumentUse::Refused,
            UnknownOptions::PassedOn => ArgumentUse::PassedOn,
        },
    };
    given.keys().map(repr::str).map(|name| (name.clone(), use_of(&name))).collect()
}
