//! The results of one task.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::audit::Audit;
use super::sample::SampleRecord;
use crate::groups::Directions;
use crate::scorers::{Bounds, MetricKey, ScoreBounds};

/// The scores of a task as shown in results.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEntry {
    /// The result key.
    pub name: String,
    /// The name shown in tables.
    pub alias: String,
    /// The number of documents with a value.
    pub sample_len: usize,
    /// Scores and standard errors, in output order.
    pub metrics: Vec<(MetricKey, Value)>,
}

impl TaskEntry {
    /// The value of one score or standard error.
    pub fn metric(&self, key: &MetricKey) -> Option<&Value> {
        self.metrics.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The task's entry in `results`.
    pub fn to_dict(&self) -> Dict {
        let mut entry = Dict::with_capacity(3 + self.metrics.len());
        entry.insert("name", self.name.as_str());
        entry.insert("alias", self.alias.as_str());
        entry.insert("sample_len", self.sample_len as i64);
        for (key, value) in &self.metrics {
            entry.insert(key.to_string(), value.clone());
        }
        entry
    }
}

impl TaskResult {
    /// The entry with each score that has bounds replaced by one of them.
    pub(super) fn at_bound(&self, bound: impl Fn(&Bounds) -> f64) -> TaskEntry {
        let mut entry = self.entry.clone();
        for (key, value) in &mut entry.metrics {
            if let Some((_, bounds)) = self.bounds.iter().find(|(own, _)| own == key) {
                *value = Value::Float(bound(bounds));
            }
        }
        entry
    }

    /// The number of documents left out for lack of an answer.
    pub fn errored(&self) -> usize {
        self.audit.iter().map(|(_, audit)| audit.errored).max().unwrap_or(0)
    }
}

/// All results of one task.
#[derive(Clone, Debug)]
pub struct TaskResult {
    /// Scores with their standard errors.
    pub entry: TaskEntry,
    /// The version, with its type in the task file.
    pub version: Value,
    /// The number of few-shot examples.
    pub num_fewshot: i64,
    /// Whether higher is better, by metric.
    pub higher_is_better: Directions,
    /// The number of documents in the evaluated split.
    pub original: usize,
    /// One record per pipeline and document, if samples are logged.
    pub samples: Option<Vec<SampleRecord>>,
    /// Counts of suspicious answers, by pipeline.
    pub audit: Vec<(Arc<str>, Audit)>,
    /// The bounds of scores if answers are unfinished.
    pub bounds: ScoreBounds,
    /// Statistics about judgements, by pipeline.
    pub judging: Vec<(Arc<str>, Dict)>,
    /// Warnings about scores.
    pub warnings: Vec<String>,
}
