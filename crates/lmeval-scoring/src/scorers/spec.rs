//! Metrics and pipelines as configured in tasks.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use crate::filters::FilterSpec;

/// A reference to a registered name or to a task function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A registered name.
    Name(Arc<str>),
    /// A task function.
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

/// A setting that is inherited from the metric, switched off, or overridden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setting<T> {
    /// Inherited from the metric.
    #[default]
    Inherited,
    /// Switched off: use the mean, the first repeat, or "higher is better".
    Null,
    /// Overridden.
    Given(T),
}

/// The configuration of one metric in a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpec {
    /// The function that computes it.
    pub metric: Reference,
    /// Combines the values of all documents.
    pub aggregation: Setting<Reference>,
    /// Combines the values of a document's repeats.
    pub reduction: Setting<Reference>,
    /// Whether higher scores are better.
    pub higher_is_better: Setting<bool>,
    /// Options passed to the metric.
    pub kwargs: Dict,
}

impl MetricSpec {
    /// A metric with its registered settings.
    pub fn named(name: &str) -> Self {
        Self {
            metric: name.into(),
            aggregation: Setting::Inherited,
            reduction: Setting::Inherited,
            higher_is_better: Setting::Inherited,
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

    /// The metric of the built-in scorers: mean exact match, ignoring case and punctuation.
    pub(super) fn normalised_exact_match() -> Self {
        let spec = Self::named("exact_match").with("ignore_case", true).with("ignore_punctuation", true);
        Self { higher_is_better: Setting::Given(true), ..spec.with_aggregation("mean") }
    }
}

/// The configuration of a pipeline: filters, and the metrics that score the filtered answers.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineSpec {
    /// The name, which is part of result keys.
    pub name: String,
    /// The filters; if empty, those of the scorer.
    pub filters: Vec<FilterSpec>,
    /// The metrics; if empty, those of the scorer, or of the output type.
    pub metrics: Vec<MetricSpec>,
}

impl PipelineSpec {
    /// A pipeline that uses the scorer's defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), filters: Vec::new(), metrics: Vec::new() }
    }
}

/// The configuration of a scorer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScorerSpec {
    /// The registered name.
    pub kind: String,
    /// Options passed to the scorer.
    pub kwargs: Dict,
}
