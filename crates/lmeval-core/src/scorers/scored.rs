//! What scoring makes of a document.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::document::DocId;

/// Something for each metric, in the order in which metrics first came up.
///
/// There are few metrics per document and many documents, so this is a list and not a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores<T> {
    entries: Vec<(Arc<str>, T)>,
}

impl<T> Scores<T> {
    /// Nothing.
    pub fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Sets the value of a metric; a metric that is there keeps its place.
    pub fn insert(&mut self, metric: impl Into<Arc<str>>, value: T) {
        let metric = metric.into();
        match self.entries.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, old)) => *old = value,
            None => self.entries.push((metric, value)),
        }
    }

    /// The value of a metric.
    pub fn get(&self, metric: &str) -> Option<&T> {
        self.entries.iter().find(|(known, _)| &**known == metric).map(|(_, value)| value)
    }

    /// The value of a metric, to be changed.
    pub fn get_mut(&mut self, metric: &str) -> Option<&mut T> {
        self.entries.iter_mut().find(|(known, _)| &**known == metric).map(|(_, value)| value)
    }

    /// Metrics and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &T)> {
        self.entries.iter().map(|(metric, value)| (metric, value))
    }

    /// The number of metrics.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no metric.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<T> Default for Scores<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, K: Into<Arc<str>>> FromIterator<(K, T)> for Scores<T> {
    fn from_iter<I: IntoIterator<Item = (K, T)>>(entries: I) -> Self {
        let mut scores = Self::new();
        for (metric, value) in entries {
            scores.insert(metric, value);
        }
        scores
    }
}

/// The values of a document before repeats are reduced: for each metric one value per repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredDoc {
    /// The document.
    pub doc_id: DocId,
    /// What the answers were compared with.
    pub reference: Value,
    /// For each metric its values, one per repeat.
    pub scores: Scores<Vec<Value>>,
}

/// The values of a document after reduction: for each metric one number, or what its aggregation takes.
#[derive(Clone, Debug, PartialEq)]
pub struct ReducedDoc {
    /// The document.
    pub doc_id: DocId,
    /// For each metric its value.
    pub values: Scores<Value>,
}

impl ReducedDoc {
    /// The dictionary of metrics and values.
    pub fn to_dict(&self) -> Dict {
        self.values.iter().map(|(metric, value)| (Value::Str(Arc::clone(metric)), value.clone())).collect()
    }
}
