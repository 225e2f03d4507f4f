//! The ordered dictionary.

use std::hash::{Hash, Hasher};

use indexmap::{Equivalent, IndexMap};
use rustc_hash::FxBuildHasher;

use crate::value::Value;

/// A Python `dict`: keys in order of first insertion, looked up by Python's equality.
///
/// ```
/// use lmeval_pycompat::{Dict, Value};
///
/// let mut dict = Dict::new();
/// dict.insert(Value::Int(1), Value::str("one"));
/// dict.insert(Value::Bool(true), Value::str("yes"));
/// assert_eq!(dict.len(), 1);
/// assert_eq!(dict.get(&Value::Float(1.0)), Some(&Value::str("yes")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Dict {
    entries: IndexMap<Key, Value, FxBuildHasher>,
}

/// A key: Python's equality made reflexive, since `dict` compares identity first (`nan` finds itself).
#[derive(Clone, Debug)]
struct Key(Value);

/// Key equality.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => left == right || (left.is_nan() && right.is_nan()),
        (left, right) => left == right,
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        same(&self.0, &other.0)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_into(state);
    }
}

/// Borrowed lookup keys: a string or any value.
#[derive(Hash)]
struct StrKey<'a>(&'a str);

impl Equivalent<Key> for StrKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        key.0.as_str() == Some(self.0)
    }
}

struct ValueKey<'a>(&'a Value);

impl Hash for ValueKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_into(state);
    }
}

impl Equivalent<Key> for ValueKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        same(&key.0, self.0)
    }
}

impl Dict {
    /// Creates an empty dictionary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty dictionary with room for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: IndexMap::with_capacity_and_hasher(capacity, FxBuildHasher) }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the dictionary has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a value and returns the old one; an existing key keeps its position and its first spelling.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) -> Option<Value> {
        self.entries.insert(Key(key.into()), value.into())
    }

    /// Looks up a string key.
    pub fn get_str(&self, key: &str) -> Option<&Value> {
        self.entries.get(&StrKey(key))
    }

    /// Looks up any key.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.entries.get(&ValueKey(key))
    }

    /// Whether a string key is present.
    pub fn contains_str(&self, key: &str) -> bool {
        self.entries.contains_key(&StrKey(key))
    }

    /// Removes a string key; the order of the others stays the same.
    pub fn remove_str(&mut self, key: &str) -> Option<Value> {
        self.entries.shift_remove(&StrKey(key))
    }

    /// The value of a string key, for modification in place.
    pub fn get_str_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.get_mut(&StrKey(key))
    }

    /// Entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Value, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(key, value)| (&key.0, value))
    }

    /// Keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator {
        self.entries.keys().map(|key| &key.0)
    }

    /// Values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator {
        self.entries.values()
    }

    /// The entry at an index, in insertion order.
    pub fn get_index(&self, index: usize) -> Option<(&Value, &Value)> {
        self.entries.get_index(index).map(|(key, value)| (&key.0, value))
    }

    /// Consumes the dictionary and returns its entries in order.
    pub fn into_entries(self) -> impl ExactSizeIterator<Item = (Value, Value)> {
        self.entries.into_iter().map(|(key, value)| (key.0, value))
    }

    /// Python's `dict.update`: later values win, existing keys keep their position.
    pub fn update(&mut self, other: &Self) {
        for (key, value) in other.iter() {
            self.insert(key.clone(), value.clone());
        }
    }
}

impl PartialEq for Dict {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl FromIterator<(Value, Value)> for Dict {
    fn from_iter<I: IntoIterator<Item = (Value, Value)>>(entries: I) -> Self {
        let mut dict = Self::new();
        for (key, value) in entries {
            dict.insert(key, value);
        }
        dict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_nan_key() {
        let mut dict = Dict::new();
        dict.insert(f64::NAN, 1_i64);
        assert_eq!(dict.get(&Value::Float(f64::NAN)), Some(&Value::Int(1)));
    }
}
