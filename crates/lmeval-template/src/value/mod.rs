//! Runtime values.
//!
//! Documents are shared, not copied: a list or dictionary of a document stays in its `Arc`, and items are
//! converted on access. Containers that the template builds are its own and mutable, as in Python.

mod compare;
mod containers;
mod iterate;
mod object;
mod release;
mod text;

use std::rc::Rc;
use std::sync::Arc;

use lmeval_pycompat::datetime::{Date, DateTime};
use lmeval_pycompat::{Function, Media, Value};
use num_bigint::BigInt;

use crate::error::{Error, ErrorKind};

pub(crate) use compare::{compare, contains, equals, less_than, sort_by};
pub(crate) use containers::{DictRef, Items, OwnDict, OwnList};
pub(crate) use iterate::{Iter, ValueIterator};
pub(crate) use object::{
    Cycler, Joiner, LoopState, MacroObject, Object, Undefined, UndefinedCause, ViewKind,
};
pub(crate) use text::{escape_html, repr_of, str_of, write_str};

/// Maximum nesting of containers that are traversed recursively.
const MAXIMUM_DEPTH: usize = 200;

/// A runtime value.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Undefined(Rc<Undefined>),
    None,
    Bool(bool),
    Int(i64),
    Big(Arc<BigInt>),
    Float(f64),
    Str(Arc<str>),
    /// A string marked as safe HTML.
    Markup(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Items),
    Tuple(Items),
    Set(Arc<Vec<Value>>),
    Dict(DictRef),
    Date(Date),
    DateTime(Box<DateTime>),
    Function(Arc<Function>),
    Media(Arc<Media>),
    Object(Rc<Object>),
}

impl Val {
    pub(crate) fn str(text: impl Into<Arc<str>>) -> Self {
        Self::Str(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(Items::own(items))
    }

    pub(crate) fn tuple(items: Vec<Self>) -> Self {
        Self::Tuple(Items::own(items))
    }

    pub(crate) fn object(object: Object) -> Self {
        Self::Object(Rc::new(object))
    }

    pub(crate) fn dict(entries: OwnDict) -> Self {
        Self::Dict(DictRef::own(entries))
    }

    pub(crate) fn from_bigint(number: BigInt) -> Self {
        Self::from(&Value::from_bigint(number))
    }

    pub(crate) fn from_usize(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// A string of the same kind as `like`: markup stays markup.
    pub(crate) fn text_like(like: &Self, text: impl Into<Arc<str>>) -> Self {
        match like {
            Self::Markup(_) => Self::Markup(text.into()),
            _ => Self::Str(text.into()),
        }
    }

    /// A deep copy with mutable containers.
    pub(crate) fn thawed(value: &Value) -> Self {
        match value {
            Value::List(items) => Self::list(items.iter().map(Self::thawed).collect()),
            Value::Tuple(items) => Self::tuple(items.iter().map(Self::thawed).collect()),
            Value::Dict(dict) => {
                let mut own = OwnDict::default();
                for (key, value) in dict.iter() {
                    own.insert(key.clone(), Self::thawed(value));
                }
                Self::dict(own)
            }
            other => Self::from(other),
        }
    }

    /// The plain value; `None` if it contains a runtime object.
    pub(crate) fn to_value(&self) -> Option<Value> {
        self.to_value_at(0)
    }

    fn to_value_at(&self, depth: usize) -> Option<Value> {
        if depth > MAXIMUM_DEPTH {
            return None;
        }
        Some(match self {
            Self::None => Value::None,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Big(number) => Value::BigInt(number.clone()),
            Self::Float(number) => Value::Float(*number),
            Self::Str(text) | Self::Markup(text) => Value::Str(text.clone()),
            Self::Bytes(bytes) => Value::Bytes(bytes.clone()),
            Self::List(items) => Value::List(items.to_values(depth + 1)?),
            Self::Tuple(items) => Value::Tuple(items.to_values(depth + 1)?),
            Self::Set(items) => Value::Set(items.clone()),
            Self::Dict(dict) => dict.to_value(depth + 1)?,
            Self::Date(date) => Value::Date(*date),
            Self::DateTime(instant) => Value::DateTime(**instant),
            Self::Function(function) => Value::Function(function.clone()),
            Self::Media(media) => Value::Media(media.clone()),
            Self::Undefined(_) | Self::Object(_) => return None,
        })
    }

    /// The value as a dictionary key.
    pub(crate) fn to_key(&self) -> Result<Value, Error> {
        self.to_key_at(0)
    }

    fn to_key_at(&self, depth: usize) -> Result<Value, Error> {
        if depth > MAXIMUM_DEPTH {
            return Err(Error::limit("The key is nested too deeply"));
        }
        match self {
            Self::List(_) | Self::Dict(_) | Self::Set(_) => Err(Error::type_error(format!(
                "A value of type `{}` cannot be a dictionary key",
                self.type_name()
            ))),
            Self::Undefined(undefined) if undefined.strict => Err(undefined.error()),
            Self::Tuple(items) => {
                let keys: Result<Vec<Value>, Error> =
                    items.iter().map(|item| item.to_key_at(depth + 1)).collect();
                Ok(Value::tuple(keys?))
            }
            _ => self.to_value().ok_or_else(|| {
                Error::type_error(format!(
                    "A value of type `{}` cannot be a dictionary key",
                    self.type_name()
                ))
            }),
        }
    }

    /// Python's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Big(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Markup(_) => "Markup",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Set(_) => "set",
            Self::Dict(_) => "dict",
            Self::Date(_) => "date",
            Self::DateTime(_) => "datetime",
            Self::Function(_) => "function",
            Self::Media(media) => media.kind().name(),
            Self::Object(object) => object.type_name(),
        }
    }

    /// Python's truth value; fails for a strict undefined value.
    pub(crate) fn truth(&self) -> Result<bool, Error> {
        Ok(match self {
            Self::Undefined(undefined) if undefined.strict => return Err(undefined.error()),
            Self::Undefined(_) | Self::None => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Str(text) | Self::Markup(text) => !text.is_empty(),
            Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(items) | Self::Tuple(items) => items.len() > 0,
            Self::Set(items) => !items.is_empty(),
            Self::Dict(dict) => dict.len() > 0,
            Self::Big(_) | Self::Date(_) | Self::DateTime(_) | Self::Function(_) | Self::Media(_) => true,
            Self::Object(object) => object.truth(),
        })
    }

    /// The contents of a string, markup or not.
    pub(crate) fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Str(text) | Self::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// An integer that fits 64 bits; `bool` is accepted.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bool(truth) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    /// An integer of any size; `bool` is accepted.
    pub(crate) fn as_bigint(&self) -> Option<BigInt> {
        match self {
            Self::Big(number) => Some((**number).clone()),
            _ => self.as_int().map(BigInt::from),
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    /// Python's `len`.
    pub(crate) fn length(&self) -> Result<usize, Error> {
        match self {
            Self::Undefined(undefined) if undefined.strict => Err(undefined.error()),
            Self::Undefined(_) => Ok(0),
            Self::Str(text) | Self::Markup(text) => Ok(text.chars().count()),
            Self::Bytes(bytes) => Ok(bytes.len()),
            Self::List(items) | Self::Tuple(items) => Ok(items.len()),
            Self::Set(items) => Ok(items.len()),
            Self::Dict(dict) => Ok(dict.len()),
            Self::Object(object) => match object.length() {
                Some(length) => Ok(length),
                None => Err(self.no_length()),
            },
            _ => Err(self.no_length()),
        }
    }

    fn no_length(&self) -> Error {
        Error::type_error(format!("A value of type `{}` has no length", self.type_name()))
    }
}

impl From<&Value> for Val {
    fn from(value: &Value) -> Self {
        match value {
            Value::None => Self::None,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(number) => Self::Int(*number),
            Value::BigInt(number) => Self::Big(number.clone()),
            Value::Float(number) => Self::Float(*number),
            Value::Str(text) => Self::Str(text.clone()),
            Value::Bytes(bytes) => Self::Bytes(bytes.clone()),
            Value::List(items) => Self::List(Items::Shared(items.clone())),
            Value::Tuple(items) => Self::Tuple(Items::Shared(items.clone())),
            Value::Set(items) => Self::Set(items.clone()),
            Value::Dict(dict) => Self::Dict(DictRef::Shared(dict.clone())),
            Value::Date(date) => Self::Date(*date),
            Value::DateTime(instant) => Self::DateTime(Box::new(*instant)),
            Value::Function(function) => Self::Function(function.clone()),
            Value::Media(media) => Self::Media(media.clone()),
        }
    }
}

impl Undefined {
    /// The error for using the value.
    pub(crate) fn error(&self) -> Error {
        match &self.cause {
            UndefinedCause::Variable(name) => {
                Error::new(ErrorKind::Undefined, format!("The variable `{name}` is not defined"))
                    .with_variable(name)
            }
            UndefinedCause::Attribute { type_name, name } => Error::new(
                ErrorKind::Undefined,
                format!("A value of type `{type_name}` has no attribute or item `{name}`"),
            ),
            UndefinedCause::Message(message) => Error::new(ErrorKind::Undefined, message.to_string()),
        }
    }
}
