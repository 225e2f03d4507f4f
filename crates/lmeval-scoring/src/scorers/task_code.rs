//! Handles to scoring code of a task, which the host runs.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::needs::Needs;
use crate::groups::Directions;
use crate::host::HostError;

/// A task function used as a metric; a trait because it holds a resolved function that is called many times.
pub trait HostMetric: Debug + Send + Sync {
    /// Computes the value of one document: a number, a list with one value per answer, or a dictionary of those.
    fn compute(&self, references: &Value, predictions: &Value, kwargs: &Dict) -> Result<Value, HostError>;

    /// [`HostMetric::compute`] for many pairs of references and predictions; an error carries the index of its pair.
    /// Hosts that run functions in parallel override it.
    fn compute_many(
        &self,
        calls: &[(Value, Value)],
        kwargs: &Dict,
    ) -> Result<Vec<Value>, (usize, HostError)> {
        let compute = |(index, (references, predictions)): (usize, &(Value, Value))| {
            self.compute(references, predictions, kwargs).map_err(|error| (index, error))
        };
        calls.iter().enumerate().map(compute).collect()
    }
}

/// A task function used as an aggregation; a trait because the host may also resample with it.
pub trait HostAggregation: Debug + Send + Sync {
    /// Combines the values of all documents.
    fn aggregate(&self, values: &[Value]) -> Result<Value, HostError>;

    /// The values of `count` resamples for each of `seeds` seeds from 0, if the host draws them itself like Python's
    /// `random.Random(seed).choices`; `None` leaves resampling to the engine.
    fn resample(
        &self,
        values: &[Value],
        seeds: usize,
        count: usize,
    ) -> Result<Option<Vec<Value>>, HostError> {
        let _ = (values, seeds, count);
        Ok(None)
    }
}

/// A task function used as a reduction; a trait for symmetry with the other handles.
pub trait HostReduction: Debug + Send + Sync {
    /// Combines the values of a document's repeats into one, or into a dictionary of several.
    fn reduce(&self, reference: &Value, values: &[Value]) -> Result<Value, HostError>;
}

/// An instance of a Python scorer class, created for one pipeline; a trait because the instance keeps state between
/// steps.
pub trait HostScorer: Debug + Send + Sync {
    /// Scores each document: a dictionary of `reference` and `scores`, or `None` if it has none.
    ///
    /// Documents are dictionaries of `doc_id`, `doc` and `requests`. `context` holds keyword arguments for every
    /// metric. With `batch` the scorer sees all documents at once.
    fn score(&self, documents: &[Value], context: &Dict, batch: bool) -> Result<Vec<Value>, HostError>;

    /// The steps that the class overrides: `apply_filter`, `score`, `reduce`, `aggregate`, `higher_is_better`.
    fn overridden_steps(&self) -> &[String];

    /// Filters the answers of each document: a list with one entry per request.
    fn apply_filter(&self, documents: &[Value]) -> Result<Vec<Value>, HostError>;

    /// Reduces each document, given dictionaries of `doc_id`, `reference` and `scores`.
    fn reduce(&self, scored: &[Value]) -> Result<Vec<Value>, HostError>;

    /// Aggregates pairs of document index and values into a dictionary of `metrics` and `sample_len`.
    fn aggregate(&self, reduced: &[Value], bootstrap_iters: i64) -> Result<Value, HostError>;

    /// The direction of each metric, given pairs of document index and values.
    fn higher_is_better(&self, reduced: &[Value]) -> Result<Value, HostError>;
}

/// Task code that replaces metrics: `process_results`, and the methods that task classes override; a trait because
/// both kinds of task implement it differently.
pub trait TaskCode: Debug + Send + Sync {
    /// Computes the values of a document; `None` leaves scoring to the metrics.
    ///
    /// `results` are the filtered answers to all requests of the document, in order.
    fn process_results(&self, document: &Arc<Dict>, results: &[Value]) -> Result<Option<Dict>, HostError>;

    /// [`TaskCode::process_results`] for many documents; hosts that run functions in parallel override it.
    fn process_many(&self, calls: &[(Arc<Dict>, Vec<Value>)]) -> Result<Vec<Option<Dict>>, HostError> {
        calls.iter().map(|(document, results)| self.process_results(document, results)).collect()
    }

    /// The parts of documents the code reads besides answers; everything by default.
    fn needs(&self) -> Needs {
        Needs::EVERYTHING
    }

    /// The aggregation of a metric that `metric_list` does not include.
    fn aggregation(&self, metric: &str) -> Option<Arc<dyn HostAggregation>> {
        let _ = metric;
        None
    }

    /// Whether higher is better, by metric, if the task itself defines it.
    fn higher_is_better(&self) -> Option<Directions> {
        None
    }
}
