//! Fields that are resolved against a document.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

/// A field such as `doc_to_text`: what it is decides how it is resolved against a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// The name of a column, or else a template.
    Text(Arc<str>),
    /// A Python function of the document.
    Function(Arc<Function>),
    /// An integer, which stands for itself.
    Int(i64),
    /// A truth value, which stands for itself.
    Bool(bool),
    /// Values of which each text is a template.
    List(Arc<Vec<Value>>),
    /// Options by key, of which the values count (`doc_to_choice` of the 0.4 line).
    Dict(Arc<Dict>),
}

impl Field {
    /// The field in a value; `None` for a type that cannot be resolved.
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

    /// The value that the field was made from.
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

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Python's name of the type.
    pub fn type_name(&self) -> &'static str {
        self.to_value().type_name()
    }
}
