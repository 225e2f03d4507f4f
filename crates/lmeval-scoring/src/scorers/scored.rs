//! The values of documents.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use lmeval_core::DocId;

/// A small ordered map from metrics to values, in order of insertion.
///
/// A list instead of a hash map, because documents are many and their metrics few; a single entry, the common case,
/// is stored inline.
#[derive(Clone)]
pub struct Scores<T> {
    entries: Entries<T>,
}

#[derive(Clone)]
enum Entries<T> {
    One([(Arc<str>, T); 1]),
    Any(Vec<(Arc<str>, T)>),
}

impl<T> Entries<T> {
    fn as_slice(&self) -> &[(Arc<str>, T)] {
        match self {
            Self::One(entry) => entry,
            Self::Any(entries) => entries,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [(Arc<str>, T)] {
        match self {
            Self::One(entry) => entry,
            Self::Any(entries) => entries,
        }
    }

    fn push(&mut self, added: (Arc<str>, T)) {
        *self = match std::mem::replace(self, Self::Any(Vec::new())) {
            Self::Any(entries) if entries.is_empty() => Self::One([added]),
            Self::Any(mut entries) => {
                entries.push(added);
                Self::Any(entries)
            }
            Self::One([first]) => Self::Any(vec![first, added]),
        };
    }
}

impl<T> Scores<T> {
    /// An empty map.
    pub fn new() -> Self {
        Self { entries: Entries::Any(Vec::new()) }
    }

    /// Sets the value of a metric; an existing metric keeps its position.
    pub fn insert(&mut self, metric: impl Into<Arc<str>>, value: T) {
        let metric = metric.into();
        match self.entries.as_mut_slice().iter_mut().find(|(known, _)| *known == metric) {
            Some((_, old)) => *old = value,
            None => self.entries.push((metric, value)),
        }
    }

    /// The value of a metric.
    pub fn get(&self, metric: &str) -> Option<&T> {
        self.entries.as_slice().iter().find(|(known, _)| &**known == metric).map(|(_, value)| value)
    }

    /// A mutable reference to the value of a metric.
    pub fn get_mut(&mut self, metric: &str) -> Option<&mut T> {
        self.entries.as_mut_slice().iter_mut().find(|(known, _)| &**known == metric).map(|(_, value)| value)
    }

    /// Metrics and values, in insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &T)> {
        self.entries.as_slice().iter().map(|(metric, value)| (metric, value))
    }

    /// The number of metrics.
    pub fn len(&self) -> usize {
        self.entries.as_slice().len()
    }

    /// Whether there is no metric.
    pub fn is_empty(&self) -> bool {
        self.entries.as_slice().is_empty()
    }
}

impl<T: fmt::Debug> fmt::Debug for Scores<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T: PartialEq> PartialEq for Scores<T> {
    fn eq(&self, other: &Self) -> bool {
        self.entries.as_slice() == other.entries.as_slice()
    }
}

impl<T> IntoIterator for Scores<T> {
    type Item = (Arc<str>, T);
    type IntoIter = std::iter::Chain<std::option::IntoIter<(Arc<str>, T)>, std::vec::IntoIter<(Arc<str>, T)>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, any) = match self.entries {
            Entries::One([entry]) => (Some(entry), Vec::new()),
            Entries::Any(entries) => (None, entries),
        };
        one.into_iter().chain(any)
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

/// The values of a document before reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredDoc {
    /// The index of the document in its split.
    pub doc_id: DocId,
    /// The target that answers were compared with.
    pub reference: Value,
    /// One value per repeat, by metric.
    pub scores: Scores<Vec<Value>>,
}

/// The values of a document after reduction: for each metric a number, or whatever its aggregation takes.
#[derive(Clone, Debug, PartialEq)]
pub struct ReducedDoc {
    /// The index of the document in its split.
    pub doc_id: DocId,
    /// One value per metric.
    pub values: Scores<Value>,
}

impl ReducedDoc {
    /// The values as a dictionary by metric.
    pub fn to_dict(&self) -> Dict {
        self.values.iter().map(|(metric, value)| (Value::Str(Arc::clone(metric)), value.clone())).collect()
    }
}
