//! Column types and the conversions between them.

use std::sync::Arc;

use lmeval_pycompat::{Dict, MediaKind, Value, json, repr};

use crate::media;
use crate::timestamp;
use crate::ujson;

/// The type of a column or of values inside it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Only nulls.
    Null,
    Bool,
    Int,
    Float,
    /// A float stored in 32 bits.
    Float32,
    Str,
    /// A date-time without a zone.
    Timestamp,
    /// An integer with names; strings are converted by name.
    ClassLabel(Arc<[Arc<str>]>),
    List(Box<Type>),
    Struct(Fields),
    /// Images or sounds, and the mode or sampling rate that the column declares.
    Media(MediaKind, Option<Arc<str>>),
    /// Values of any type, stored as they are.
    Json,
    /// A type that is never converted.
    Any,
}

/// Named types in order.
pub(crate) type Fields = Vec<(Arc<str>, Type)>;

/// The columns of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Schema {
    pub(crate) columns: Fields,
}

impl Schema {
    pub(crate) fn new(columns: Fields) -> Self {
        Self { columns }
    }

    /// The type of a column, which is usually at the given position.
    pub(crate) fn column(&self, name: &str, position: usize) -> Option<&Type> {
        match self.columns.get(position) {
            Some((known, kind)) if **known == *name => Some(kind),
            _ => self.columns.iter().find(|(known, _)| **known == *name).map(|(_, kind)| kind),
        }
    }

    /// Adds information from a later part of the data: new columns, and types of columns that were all null so
    /// far.
    pub(crate) fn widen(&mut self, later: &Self) {
        widen_fields(&mut self.columns, &later.columns, true);
    }

    /// Converts a row: each value first to its type in `source`, the schema of its part of the data, then to its
    /// type in this schema. The result has all columns in order. The error names the column.
    pub(crate) fn convert(&self, mut row: Dict, source: &Self) -> Result<Dict, (Arc<str>, String)> {
        if self.holds(&row) && self == source {
            return Ok(row);
        }
        let mut shaped = Dict::with_capacity(self.columns.len());
        for (position, (name, kind)) in self.columns.iter().enumerate() {
            let value = row.get_str_mut(name).map(std::mem::take).unwrap_or_default();
            let first = source.column(name, position).filter(|first| *first != kind && *kind != Type::Json);
            let value = match first {
                Some(first) => first.convert(value).and_then(|value| kind.convert(value)),
                None => kind.convert(value),
            };
            let value = value.map_err(|message| (name.clone(), message))?;
            shaped.insert(Value::Str(name.clone()), value);
        }
        Ok(shaped)
    }

    /// Whether a row has these columns in this order, with scalars of their types.
    fn holds(&self, row: &Dict) -> bool {
        let is_held = |((key, value), (name, kind)): ((&Value, &Value), &(Arc<str>, Type))| {
            key.as_str() == Some(&**name)
                && matches!(
                    (kind, value),
                    (Type::Str, Value::Str(_))
                        | (Type::Int, Value::Int(_))
                        | (Type::Float, Value::Float(_))
                        | (Type::Bool, Value::Bool(_))
                )
        };
        row.len() == self.columns.len() && row.iter().zip(&self.columns).all(is_held)
    }
}

fn widen_fields(fields: &mut Fields, later: &Fields, add: bool) {
    for (name, kind) in later {
        match fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.widen(kind),
            None if add => fields.push((name.clone(), kind.clone())),
            None => {}
        }
    }
}

impl Type {
    fn widen(&mut self, later: &Self) {
        match (self, later) {
            (Self::List(item), Self::List(later)) => item.widen(later),
            (Self::Struct(fields), Self::Struct(later)) => widen_fields(fields, later, false),
            (known @ Self::Null, later) => *known = later.clone(),
            _ => {}
        }
    }

    /// Converts a value as the reference casts a column; the error is a message.
    pub(crate) fn convert(&self, value: Value) -> Result<Value, String> {
        if value.is_none() {
            return Ok(value);
        }
        let fail = |value: &Value| Err(format!("cannot convert {} to {}", describe(value), self.name()));
        match self {
            Self::Any => Ok(value),
            Self::Json => Ok(ujson::decoded_leaf(value)),
            Self::Media(kind, option) => media::read(*kind, option.as_ref(), value),
            Self::Null => fail(&value),
            Self::Bool => match &value {
                Value::Bool(_) => Ok(value),
                Value::Int(number) => Ok(Value::Bool(*number != 0)),
                Value::Float(number) => Ok(Value::Bool(*number != 0.0)),
                Value::Str(text) => match text.to_ascii_lowercase().as_str() {
                    "true" | "1" => Ok(Value::Bool(true)),
                    "false" | "0" => Ok(Value::Bool(false)),
                    _ => fail(&value),
                },
                _ => fail(&value),
            },
            Self::Int => match &value {
                Value::Int(_) | Value::BigInt(_) => Ok(value),
                Value::Bool(truth) => Ok(Value::Int(i64::from(*truth))),
                Value::Float(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => {
                    Ok(Value::Int(*number as i64))
                }
                Value::Str(text) => text.parse().map(Value::Int).or_else(|_| fail(&value)),
                Value::DateTime(moment) => Ok(Value::Int(timestamp::seconds(*moment))),
                _ => fail(&value),
            },
            Self::Float => Self::float(&value).map(Value::Float).ok_or(()).or_else(|()| fail(&value)),
            Self::Float32 => Self::float(&value)
                .map(|number| Value::Float(f64::from(number as f32)))
                .ok_or(())
                .or_else(|()| fail(&value)),
            Self::Str => match &value {
                Value::Str(_) => Ok(value),
                Value::Bool(truth) => Ok(Value::str(if *truth { "true" } else { "false" })),
                Value::Int(_) | Value::BigInt(_) => Ok(Value::from(repr::repr(&value))),
                Value::Float(number) => Ok(Value::from(float_text(*number))),
                Value::DateTime(moment) => Ok(Value::from(moment.to_string())),
                Value::Date(date) => Ok(Value::from(date.to_string())),
                Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Value::str(text)),
                    Err(_) => fail(&value),
                },
                Value::Dict(_) => compact_json(&value).map(Value::from).ok_or(()).or_else(|()| fail(&value)),
                _ => fail(&value),
            },
            Self::Timestamp => match &value {
                Value::DateTime(_) => Ok(value),
                Value::Str(text) => {
                    timestamp::parse(text).map(Value::DateTime).ok_or(()).or_else(|()| fail(&value))
                }
                Value::Int(seconds) => seconds
                    .checked_mul(1_000_000)
                    .and_then(timestamp::from_micros)
                    .map(Value::DateTime)
                    .ok_or(())
                    .or_else(|()| fail(&value)),
                _ => fail(&value),
            },
            Self::ClassLabel(names) => match &value {
                Value::Int(_) => Ok(value),
                Value::Str(text) => match names.iter().position(|name| **name == *text.trim()) {
                    Some(index) => Ok(Value::Int(index as i64)),
                    None => text.trim().parse().map(Value::Int).or_else(|_| fail(&value)),
                },
                _ => Self::Int.convert(value),
            },
            Self::List(item) => match &value {
                Value::List(items) => items
                    .iter()
                    .map(|one| item.convert(one.clone()))
                    .collect::<Result<Vec<_>, _>>()
                    .map(Value::from),
                _ => fail(&value),
            },
            Self::Struct(fields) => match &value {
                Value::Dict(dict) => struct_value(dict, fields),
                _ => fail(&value),
            },
        }
    }

    fn float(value: &Value) -> Option<f64> {
        match value {
            Value::Str(text) => text.parse().ok(),
            _ => value.to_f64(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int | Self::ClassLabel(_) => "an integer",
            Self::Float | Self::Float32 => "a float",
            Self::Str => "a string",
            Self::Timestamp => "a date-time",
            Self::List(_) => "a list",
            Self::Struct(_) => "an object",
            Self::Media(kind, _) => kind.name(),
            Self::Json | Self::Any => "a value",
        }
    }
}

fn struct_value(dict: &Dict, fields: &Fields) -> Result<Value, String> {
    if let Some(extra) = dict.keys().find(|key| !fields.iter().any(|(name, _)| key.as_str() == Some(name))) {
        return Err(format!("the object has a key {} that earlier rows do not have", repr::repr(extra)));
    }
    let mut shaped = Dict::with_capacity(fields.len());
    for (name, kind) in fields {
        let value = dict.get_str(name).cloned().unwrap_or_default();
        shaped.insert(Value::Str(name.clone()), kind.convert(value)?);
    }
    Ok(Value::from(shaped))
}

fn describe(value: &Value) -> String {
    let text = repr::repr(value);
    let short: String = text.chars().take(60).collect();
    format!("`{short}{}` ({})", if short.len() < text.len() { "…" } else { "" }, value.type_name())
}

/// Formats a float as the reference's cast does: shortest digits, no trailing `.0`, exponents from 1e+10 on.
fn float_text(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan".into()
        } else if number > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let magnitude = number.abs();
    if number == 0.0 || (1e-6..1e10).contains(&magnitude) {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
        _ => text,
    }
}

fn compact_json(value: &Value) -> Option<String> {
    let options = json::Options { separators: Some((",", ":")), ..json::Options::default() };
    json::dumps(value, &options).ok()
}
