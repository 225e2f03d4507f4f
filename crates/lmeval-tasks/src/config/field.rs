//! Fields that are resolved per document.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

/// A field such as `doc_to_text`; its variant decides how it is resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// The name of a column, otherwise a template.
    Text(Arc<str>),
    /// A Python function of the document.
    Function(Arc<Function>),
    /// A constant integer.
    Int(i64),
    /// A constant boolean.
    Bool(bool),
    /// A list in which every string is a template.
    List(Arc<Vec<Value>>),
    /// Options by key; only the values are used (`doc_to_choice` in 0.4).
    Dict(Arc<Dict>),
}

impl Field {
    /// Converts a value; `None` for a type that cannot be resolved.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Str(text) => Some(Self::Text(Arc::clone(text))),
            Value::Function(function) => Some(Self::Function(Arc::clone(function))),
            Value::Int(number) => Some(Self::Int(*number)),
            Value::Bool(truth) => Some(Self::Bool(*truth)),
            Value::List(items) => Some(Self::List(Arc::clone(items))),
            Value::Dict(dict) => Some(Self::Dict(Arc::clone(dict))),
            _ => None,
        }
    }

    /// The value that the field was read from.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::Str(Arc::clone(text)),
            Self::Function(function) => Value::Function(Arc::clone(function)),
            Self::Int(number) => Value::Int(*number),
            Self::Bool(truth) => Value::Bool(*truth),
            Self::List(items) => Value::List(Arc::clone(items)),
            Self::Dict(dict) => Value::Dict(Arc::clone(dict)),
        }
    }

    /// The string of a [`Field::Text`].
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The name of the Python type.
    pub fn type_name(&self) -> &'static str {
        self.to_value().type_name()
    }
}
