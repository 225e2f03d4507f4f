//! Types of JSON columns, found by looking at every value.

use std::collections::HashMap;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::timestamp;
use crate::types::{Fields, Schema, Type};

/// Rules that depend on how the reference reads the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Objects whose keys differ from row to row stay as they are, rather than getting all keys.
    pub(super) keep_ragged_objects: bool,
    /// Which columns may turn into date-times.
    pub(super) dates: Dates,
}

/// Which columns may turn into date-times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dates {
    /// All of them, also inside lists and objects.
    Everywhere,
    /// Those on top level whose name speaks of a date.
    ByName,
}

/// What is known of the rows so far.
#[derive(Debug, Default)]
pub(super) struct Inference {
    root: Object,
}

/// What is known of one place in the rows.
#[derive(Debug, Default)]
struct Node {
    booleans: bool,
    integers: bool,
    floats: bool,
    dates: bool,
    texts: bool,
    items: Option<Box<Node>>,
    object: Option<Object>,
}

/// The keys of objects in order of appearance.
#[derive(Debug, Default)]
struct Object {
    fields: Vec<(Arc<str>, Node)>,
    places: HashMap<Arc<str>, usize>,
    /// Whether two objects had different keys, or one had none.
    ragged: bool,
    seen: bool,
}

impl Inference {
    /// Takes a row into account.
    pub(super) fn row(&mut self, row: &Dict) {
        self.root.add(row);
    }

    /// The schema of all rows seen.
    pub(super) fn schema(&self, rules: Rules) -> Schema {
        let fields = self.root.fields.iter().map(|(name, node)| {
            let by_name = rules.dates == Dates::ByName && speaks_of_dates(name);
            (name.clone(), node.kind(rules, by_name || rules.dates == Dates::Everywhere))
        });
        Schema::new(fields.collect())
    }
}

impl Object {
    fn add(&mut self, dict: &Dict) {
        let known = self.fields.len();
        for (position, (key, value)) in dict.iter().enumerate() {
            let Value::Str(key) = key else { continue };
            // Rows most often have the same keys in the same order.
            let place = match self.fields.get(position) {
                Some((name, _)) if name == key => position,
                _ => match self.places.get(key) {
                    Some(&place) => place,
                    None => {
                        self.places.insert(key.clone(), self.fields.len());
                        self.fields.push((key.clone(), Node::default()));
                        self.fields.len() - 1
                    }
                },
            };
            self.fields[place].1.add(value);
        }
        self.ragged |= dict.is_empty() || (self.seen && (self.fields.len() > known || dict.len() != known));
        self.seen = true;
    }
}

impl Node {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Bool(_) => self.booleans = true,
            Value::Int(_) => self.integers = true,
            Value::BigInt(_) | Value::Float(_) => self.floats = true,
            Value::Str(text) if !self.texts && timestamp::parse(text).is_some() => self.dates = true,
            Value::Str(_) => self.texts = true,
            Value::List(items) => {
                let node = self.items.get_or_insert_default();
                items.iter().for_each(|item| node.add(item));
            }
            Value::Dict(dict) => self.object.get_or_insert_default().add(dict),
            _ => {}
        }
    }

    fn kind(&self, rules: Rules, dates: bool) -> Type {
        let numbers = self.integers || self.floats;
        let texts = self.dates || self.texts;
        let kinds = [self.booleans, numbers, texts, self.items.is_some(), self.object.is_some()];
        if kinds.iter().filter(|seen| **seen).count() > 1 {
            return Type::Json;
        }
        let nested = dates && rules.dates == Dates::Everywhere;
        match (&self.items, &self.object) {
            (Some(item), _) => Type::List(Box::new(item.kind(rules, nested))),
            (_, Some(object)) if object.ragged && rules.keep_ragged_objects => Type::Json,
            (_, Some(object)) => Type::Struct(object.kinds(rules, nested)),
            _ if self.booleans => Type::Bool,
            _ if self.floats => Type::Float,
            _ if self.integers => Type::Int,
            _ if texts && dates && !self.texts => Type::Timestamp,
            _ if texts => Type::Str,
            _ => Type::Null,
        }
    }
}

impl Object {
    fn kinds(&self, rules: Rules, dates: bool) -> Fields {
        self.fields.iter().map(|(name, node)| (name.clone(), node.kind(rules, dates))).collect()
    }
}

fn speaks_of_dates(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with("_at")
        || name.ends_with("_time")
        || name.starts_with("timestamp")
        || name == "modified"
        || name == "date"
}

/// Whether a type, or what is inside it, keeps values as they are.
pub(super) fn has_json(fields: &Fields) -> bool {
    fn inside(kind: &Type) -> bool {
        match kind {
            Type::Json => true,
            Type::List(item) => inside(item),
            Type::Struct(fields) => has_json(fields),
            _ => false,
        }
    }
    fields.iter().any(|(_, kind)| inside(kind))
}
