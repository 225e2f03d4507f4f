//! Scoring functions of a task that something outside of this program runs.

use std::fmt::Debug;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::needs::Needs;
use crate::groups::Directions;
use crate::host::HostError;

/// A metric that is a function of the task.
pub trait HostMetric: Debug + Send + Sync {
    /// The value for one document: a number, a list with one value per answer, or a dictionary of those.
    fn compute(&self, references: &Value, predictions: &Value, kwargs: &Dict) -> Result<Value, HostError>;

    /// [`HostMetric::compute`] of many pairs of references and predictions; an error comes with the place of the pair
    /// that it is about. Hosts that run functions in parallel override it.
    fn compute_many(
        &self,
        calls: &[(Value, Value)],
        kwargs: &Dict,
    ) -> Result<Vec<Value>, (usize, HostError)> {
        let compute = |(place, (references, predictions)): (usize, &(Value, Value))| {
            self.compute(references, predictions, kwargs).map_err(|error| (place, error))
        };
        calls.iter().enumerate().map(compute).collect()
    }
}

/// An aggregation that is a function of the task.
pub trait HostAggregation: Debug + Send + Sync {
    /// One value from those of all documents.
    fn aggregate(&self, values: &[Value]) -> Result<Value, HostError>;

    /// The values of `count` resamples for each of `seeds` seeds from 0 on, where the host draws them itself, as Python's
    /// `random.Random(seed).choices` does; `None` leaves that to the engine.
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

/// A reduction that is a function of the task.
pub trait HostReduction: Debug + Send + Sync {
    /// One value from those of a document's repeats, or a dictionary of several.
    fn reduce(&self, reference: &Value, values: &[Value]) -> Result<Value, HostError>;
}

/// A scorer that is an object of a Python class, made for one pipeline.
pub trait HostScorer: Debug + Send + Sync {
    /// For each document its scores: a dictionary with `reference` and `scores`, or `None` where it has none.
    ///
    /// The documents are dictionaries with `doc_id`, `doc` and `requests`. `context` are keyword arguments that every
    /// metric is offered. With `batch` the scorer sees all documents at once.
    fn score(&self, documents: &[Value], context: &Dict, batch: bool) -> Result<Vec<Value>, HostError>;

    /// The steps beside those of its tier that the object has code for: `apply_filter`, `score`, `reduce`, `aggregate`,
    /// `higher_is_better`.
    fn own_steps(&self) -> &[String];

    /// For each document what becomes of its answers, a list with an entry for each request.
    fn apply_filter(&self, documents: &[Value]) -> Result<Vec<Value>, HostError>;

    /// The values of each document after reduction, given dictionaries with `doc_id`, `reference` and `scores`.
    fn reduce(&self, scored: &[Value]) -> Result<Vec<Value>, HostError>;

    /// A dictionary with the scores of all documents as `metrics` and their number as `sample_len`, given pairs of
    /// number and values.
    fn aggregate(&self, reduced: &[Value], bootstrap_iters: i64) -> Result<Value, HostError>;

    /// A dictionary of metrics and whether higher is better, given pairs of number and values.
    fn higher_is_better(&self, reduced: &[Value]) -> Result<Value, HostError>;
}

/// Code of a task that takes the place of metrics: `process_results`, and what task classes override.
pub trait TaskCode: Debug + Send + Sync {
    /// The values that the task itself gives for a document; `None` leaves scoring to the metrics.
    ///
    /// `results` are the filtered answers to all requests of the document, in order.
    fn process_results(&self, document: &Arc<Dict>, results: &[Value]) -> Result<Option<Dict>, HostError>;

    /// [`TaskCode::process_results`] of many documents; hosts that run functions in parallel override it.
    fn process_many(&self, calls: &[(Arc<Dict>, Vec<Value>)]) -> Result<Vec<Option<Dict>>, HostError> {
        calls.iter().map(|(document, results)| self.process_results(document, results)).collect()
    }

    /// What the code looks at beside answers; unless it says otherwise, that may be everything.
    fn needs(&self) -> Needs {
        Needs::EVERYTHING
    }

    /// The aggregation of a metric that no entry of `metric_list` names.
    fn aggregation(&self, metric: &str) -> Option<Arc<dyn HostAggregation>> {
        let _ = metric;
        None
    }

    /// For each metric whether higher is better, where the task says so itself.
    fn higher_is_better(&self) -> Option<Directions> {
        None
    }
}
