//! The metrics of a pipeline.

use std::fmt;
use std::sync::Arc;

use lmeval_metrics::{AnyAggregation, AnyMetric, AnyReduction, Reduced};
use lmeval_pycompat::{Dict, Value};

use super::error::ScoreError;
use super::task_code::{HostAggregation, HostMetric, HostReduction};
use lmeval_core::DocId;
use lmeval_core::OutputType;

/// The function that computes a metric's value of a document.
#[derive(Clone)]
pub enum MetricFunction {
    /// A registered metric.
    Registered(Arc<dyn AnyMetric>),
    /// A task function.
    Host(Arc<dyn HostMetric>),
    /// None: the task computes the values.
    Placeholder,
    /// Returns the pair of target and first answer, for an aggregation of the task.
    Pair,
}

/// Combines the values of all documents into a score.
#[derive(Clone)]
pub enum MetricAggregation {
    /// A registered aggregation, or one specific to the metric.
    Registered(Arc<dyn AnyAggregation>),
    /// A task function.
    Host(Arc<dyn HostAggregation>),
}

/// Combines the values of a document's repeats.
#[derive(Clone)]
pub enum MetricReduction {
    /// A registered reduction, or one specific to the metric.
    Registered(Arc<dyn AnyReduction>),
    /// A task function.
    Host(Arc<dyn HostReduction>),
}

/// One resolved metric of a pipeline.
#[derive(Clone)]
pub struct PipelineMetric {
    /// The name in result keys.
    pub name: Arc<str>,
    /// Computes the value of a document.
    pub function: MetricFunction,
    /// Keyword arguments of the function.
    pub kwargs: Dict,
    /// Combines the values of all documents.
    pub aggregation: MetricAggregation,
    /// Combines the values of a document's repeats.
    pub reduction: MetricReduction,
    /// Whether higher is better; `None` if unknown.
    pub higher_is_better: Option<bool>,
    /// The name of the aggregation in messages.
    pub(super) aggregation_name: Arc<str>,
    /// Whether the task refers to the function with `!function` instead of a registered name.
    pub(super) is_by_reference: bool,
    /// Whether the 0.4 line computes a standard error for the aggregation.
    pub(super) has_legacy_stderr: bool,
    /// Whether the score exists only for the complete corpus.
    pub(super) needs_corpus: bool,
    /// The index in the configuration.
    pub(super) position: usize,
}

impl fmt::Debug for PipelineMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineMetric")
            .field("name", &self.name)
            .field("kwargs", &self.kwargs)
            .field("higher_is_better", &self.higher_is_better)
            .finish_non_exhaustive()
    }
}

/// The result of a reduction: one value, or several by name.
pub(super) enum ReducedValue {
    One(Value),
    Named(Vec<(String, Value)>),
}

impl PipelineMetric {
    /// Whether the metric may read the prompts: log-likelihood metrics receive them.
    pub(super) fn needs_prompts(&self, output_type: OutputType) -> bool {
        match &self.function {
            MetricFunction::Registered(metric) => metric.needs_prompt(),
            MetricFunction::Host(_) => output_type != OutputType::GenerateUntil,
            MetricFunction::Placeholder | MetricFunction::Pair => false,
        }
    }

    /// Whether a task function computes the values.
    pub(super) fn calls_task_code(&self) -> bool {
        matches!(self.function, MetricFunction::Host(_) | MetricFunction::Placeholder)
            || matches!(self.reduction, MetricReduction::Host(_))
    }

    /// Whether the aggregation is a task function.
    pub(super) fn is_aggregated_by_task(&self) -> bool {
        matches!(self.aggregation, MetricAggregation::Host(_))
    }

    pub(super) fn reduce(
        &self,
        document: DocId,
        reference: &Value,
        values: &[Value],
    ) -> Result<ReducedValue, ScoreError> {
        match &self.reduction {
            MetricReduction::Registered(reduction) => match reduction.reduce(reference, values) {
                Ok(Reduced::One(value)) => Ok(ReducedValue::One(value)),
                Ok(Reduced::Named(named)) => Ok(ReducedValue::Named(named)),
                Err(source) => Err(ScoreError::Reduction { metric: self.name.to_string(), document, source }),
            },
            MetricReduction::Host(function) => {
                let reduced = function
                    .reduce(reference, values)
                    .map_err(|source| ScoreError::HostOnDocument { document, source })?;
                Ok(match &reduced {
                    Value::Dict(named) => ReducedValue::Named(
                        text_keys(named, document)?.map(|(key, value)| (key.to_string(), value)).collect(),
                    ),
                    _ => ReducedValue::One(reduced),
                })
            }
        }
    }
}

/// The entries of a dictionary whose keys are strings.
pub(super) fn text_keys(
    dict: &Dict,
    document: DocId,
) -> Result<impl Iterator<Item = (Arc<str>, Value)> + '_, ScoreError> {
    if let Some(key) = dict.keys().find(|key| key.as_str().is_none()) {
        return Err(ScoreError::KeyType { document, type_name: key.type_name() });
    }
    Ok(dict.iter().filter_map(|(key, value)| match key {
        Value::Str(key) => Some((Arc::clone(key), value.clone())),
        _ => None,
    }))
}
