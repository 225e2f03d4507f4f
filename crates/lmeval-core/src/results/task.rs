//! What one task gave.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::audit::Audit;
use super::sample::SampleRecord;
use crate::groups::Directions;
use crate::scorers::MetricKey;

/// The scores of a task, as results show them.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEntry {
    /// The key in results.
    pub name: String,
    /// The name that tables show.
    pub alias: String,
    /// The number of documents that have a value.
    pub sample_len: usize,
    /// Scores and standard errors, in order.
    pub metrics: Vec<(MetricKey, Value)>,
}

impl TaskEntry {
    /// The value under a key.
    pub fn metric(&self, key: &MetricKey) -> Option<&Value> {
        self.metrics.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The entry of `results`.
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

/// Everything that one task gave.
#[derive(Clone, Debug)]
pub struct TaskResult {
    /// Its scores.
    pub entry: TaskEntry,
    /// Its version, with the type that the task gives it.
    pub version: Value,
    /// The number of examples in prompts.
    pub num_fewshot: i64,
    /// For each metric whether higher is better.
    pub higher_is_better: Directions,
    /// The number of documents of the evaluated split.
    pub original: usize,
    /// One record per pipeline and document, where they are kept.
    pub samples: Option<Vec<SampleRecord>>,
    /// Counts of odd answers, by pipeline.
    pub audit: Vec<(Arc<str>, Audit)>,
    /// What is doubtful about its scores.
    pub warnings: Vec<String>,
}
