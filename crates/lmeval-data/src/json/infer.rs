//! Type inference of JSON columns from all their values.

use std::collections::HashMap;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::timestamp;
use crate::types::{Fields, Schema, Type};

/// Rules that depend on how the reference reads the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether objects with varying keys stay as they are instead of getting all keys.
    pub(super) keep_ragged_objects: bool,
    /// The columns that may become date-times.
    pub(super) dates: Dates,
}

/// The columns that may become date-times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dates {
    /// All columns, including values inside lists and objects.
    Everywhere,
    /// Top-level columns whose name suggests a date.
    ByName,
    /// No columns.
    Never,
}

/// The types inferred from the rows so far.
#[derive(Debug, Default)]
pub(super) struct Inference {
    root: Object,
    /// The number of columns in the first row.
    first: Option<usize>,
}

/// The values seen at one path of the rows.
#[derive(Debug, Default)]
struct Node {
    booleans: bool,
    integers: bool,
    floats: bool,
    /// Whether a float had a fractional part.
    fractions: bool,
    dates: bool,
    texts: bool,
    items: Option<Box<Node>>,
    /// Whether a list started with a null and continued, before any list had determined the item type.
    null_first: bool,
    object: Option<Object>,
}

/// The keys of objects in order of appearance.
#[derive(Debug, Default)]
struct Object {
    fields: Vec<(Arc<str>, Node)>,
    indices: HashMap<Arc<str>, usize>,
    /// Whether objects had different keys, or one was empty.
    ragged: bool,
    seen: bool,
}

impl Inference {
    /// Adds a row.
    pub(super) fn row(&mut self, row: &Dict) {
        self.root.add(row);
        self.first.get_or_insert(self.root.fields.len());
    }

    /// Whether the reference's fast reader fails on the rows. It does on lists that start with nulls; the fallback
    /// reader does not detect dates and uses the codec's float parser.
    pub(super) fn needs_plain_reader(&self, rules: Rules) -> bool {
        self.root.fields.iter().any(|(_, node)| node.has_null_first(rules))
    }

    /// The schema of all rows seen.
    pub(super) fn schema(&self, rules: Rules) -> Schema {
        let fields = self.root.fields.iter().map(|(name, node)| {
            let by_name = rules.dates == Dates::ByName && suggests_date(name);
            let kind = node.kind(rules, by_name || rules.dates == Dates::Everywhere);
            let whole = rules.dates == Dates::ByName && !node.fractions;
            // Reference: with a `field`, a column of integral floats is read as integers.
            (name.clone(), if whole && kind == Type::Float { Type::Int } else { kind })
        });
        let mut fields: Fields = fields.collect();
        if rules.dates != Dates::ByName {
            self.move_mixed_columns(&mut fields);
        }
        Schema::new(fields)
    }

    /// Reference: columns stored as JSON strings are added to every row, including the first, so they come right
    /// after the columns of the first row.
    fn move_mixed_columns(&self, fields: &mut Fields) {
        let first = self.first.unwrap_or(0).min(fields.len());
        let mut others = fields.split_off(first);
        // Columns with nested values are found before those with mixed scalars.
        let rank = |(name, kind): &(Arc<str>, Type)| match (inside_is_json(kind), self.root.indices.get(name))
        {
            (false, _) => 2,
            (true, Some(&index)) => usize::from(!self.root.fields[index].1.is_nested()),
            (true, None) => 1,
        };
        others.sort_by_key(rank);
        fields.append(&mut others);
    }
}

impl Object {
    fn add(&mut self, dict: &Dict) {
        let known = self.fields.len();
        for (position, (key, value)) in dict.iter().enumerate() {
            let Value::Str(key) = key else { continue };
            // Rows usually have the same keys in the same order.
            let index = match self.fields.get(position) {
                Some((name, _)) if name == key => position,
                _ => match self.indices.get(key) {
                    Some(&index) => index,
                    None => {
                        self.indices.insert(key.clone(), self.fields.len());
                        self.fields.push((key.clone(), Node::default()));
                        self.fields.len() - 1
                    }
                },
            };
            self.fields[index].1.add(value);
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
            Value::BigInt(_) => self.floats = true,
            Value::Float(number) => {
                self.floats = true;
                self.fractions |= number.fract() != 0.0 || number.abs() > 9e15;
            }
            Value::Str(text) if !self.texts && timestamp::parse(text).is_some() => self.dates = true,
            Value::Str(_) => self.texts = true,
            Value::List(items) => {
                let node = self.items.get_or_insert_default();
                self.null_first |= !node.is_known() && items.len() > 1 && items[0].is_none();
                items.iter().for_each(|item| node.add(item));
            }
            Value::Dict(dict) => self.object.get_or_insert_default().add(dict),
            _ => {}
        }
    }

    /// Whether any value other than null was seen.
    fn is_known(&self) -> bool {
        self.booleans || self.integers || self.floats || self.dates || self.texts || self.is_nested()
    }

    fn is_nested(&self) -> bool {
        self.items.is_some() || self.object.is_some()
    }

    fn has_null_first(&self, rules: Rules) -> bool {
        // A column stored as JSON strings is not a list to the reader.
        if self.kind(rules, false) == Type::Json {
            return false;
        }
        let in_items = self.items.as_ref().is_some_and(|node| node.has_null_first(rules));
        let mut fields = self.object.iter().flat_map(|object| &object.fields);
        self.null_first || in_items || fields.any(|(_, node)| node.has_null_first(rules))
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

fn suggests_date(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with("_at")
        || name.ends_with("_time")
        || name.starts_with("timestamp")
        || name == "modified"
        || name == "date"
}

/// Whether any of the types stores values as JSON, at any depth.
pub(super) fn has_json(fields: &Fields) -> bool {
    fields.iter().any(|(_, kind)| inside_is_json(kind))
}

fn inside_is_json(kind: &Type) -> bool {
    match kind {
        Type::Json => true,
        Type::List(item) => inside_is_json(item),
        Type::Struct(fields) => has_json(fields),
        _ => false,
    }
}
