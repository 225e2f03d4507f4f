//! Metrics and pipelines as tasks write them.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use crate::filters::FilterSpec;

/// Something that is given by a registered name or by a function of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A name, to be looked up.
    Name(Arc<str>),
    /// A function.
    Function(Arc<Function>),
}

impl From<&str> for Reference {
    fn from(name: &str) -> Self {
        Self::Name(name.into())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Function(function) => f.write_str(&function.reference),
        }
    }
}

/// A setting that may be left to the metric, switched off, or given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// What the metric has.
    #[default]
    Own,
    /// Nothing: the mean, the first repeat, or higher is better.
    Null,
    /// This.
    Given(T),
}

/// One metric of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpec {
    /// The metric.
    pub metric: Reference,
    /// How the values of all documents become one.
    pub aggregation: Setting<Reference>,
    /// How the values of a document's repeats become one.
    pub reduction: Setting<Reference>,
    /// Whether a higher score is better.
    pub higher_is_better: Setting<bool>,
    /// Keyword arguments.
    pub kwargs: Dict,
}

impl MetricSpec {
    /// A metric of a name as it is registered.
    pub fn named(name: &str) -> Self {
        Self {
            metric: name.into(),
            aggregation: Setting::Own,
            reduction: Setting::Own,
            higher_is_better: Setting::Own,
            kwargs: Dict::new(),
        }
    }

    /// Sets a keyword argument.
    pub fn with(mut self, argument: &str, value: impl Into<Value>) -> Self {
        self.kwargs.insert(argument, value);
        self
    }

    /// Sets the aggregation.
    pub fn with_aggregation(mut self, name: &str) -> Self {
        self.aggregation = Setting::Given(name.into());
        self
    }

    /// Sets the reduction.
    pub fn with_reduction(mut self, name: &str) -> Self {
        self.reduction = Setting::Given(name.into());
        self
    }

    /// The metric of the ready-made scorers: the mean of exact matches without regard to case and punctuation.
    pub(super) fn normalised_exact_match() -> Self {
        let spec = Self::named("exact_match").with("ignore_case", true).with("ignore_punctuation", true);
        Self { higher_is_better: Setting::Given(true), ..spec.with_aggregation("mean") }
    }
}

/// A pipeline: a name, filters, and the metrics that score what they make of answers.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineSpec {
    /// The name, which is part of result keys.
    pub name: String,
    /// The filters; none means the scorer's own.
    pub filters: Vec<FilterSpec>,
    /// The metrics; none means the scorer's own, or those of the output type.
    pub metrics: Vec<MetricSpec>,
}

impl PipelineSpec {
    /// A pipeline that leaves everything to the scorer.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), filters: Vec::new(), metrics: Vec::new() }
    }
}

/// A scorer by name, with arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ScorerSpec {
    /// The registered name.
    pub kind: String,
    /// Keyword arguments.
    pub kwargs: Dict,
}
