//! The Python-shaped value.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::{FromPrimitive, ToPrimitive};

use crate::datetime::{Date, DateTime};
use crate::dict::Dict;
use crate::media::Media;

/// A Python value, as found in YAML, datasets, literals and templates.
///
/// Strings and containers are shared, so `clone` is cheap at any size. Equality is Python's `==`:
/// `1`, `1.0` and `True` are equal, a list never equals a tuple, and dictionaries compare regardless of order.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `None`.
    #[default]
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits into 64 bits.
    Int(i64),
    /// A larger integer; build it with [`Value::from_bigint`], which guarantees that.
    BigInt(Arc<BigInt>),
    /// A `float`, which may be NaN or infinite.
    Float(f64),
    /// A `str`.
    Str(Arc<str>),
    /// A `bytes`.
    Bytes(Arc<[u8]>),
    /// A `list`.
    List(Arc<Vec<Value>>),
    /// A `tuple`.
    Tuple(Arc<Vec<Value>>),
    /// A `set`: distinct values in insertion order.
    Set(Arc<Vec<Value>>),
    /// A `dict`.
    Dict(Arc<Dict>),
    /// A `datetime.date`.
    Date(Date),
    /// A `datetime.datetime`.
    DateTime(DateTime),
    /// A reference to a Python function, not imported yet.
    Function(Arc<Function>),
    /// An image or a sound.
    Media(Arc<Media>),
}

/// A reference to a Python object, written as `!function module.name`.
///
/// Nothing is imported; the reference records the directory of its file, relative to which it is looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The part after the tag, such as `utils.process_docs`.
    pub reference: String,
    /// The directory of the file with the tag; empty if there is no file.
    pub directory: String,
}

impl Function {
    /// The module and the attribute, split at the last dot.
    pub fn split(&self) -> Option<(&str, &str)> {
        self.reference.rsplit_once('.')
    }
}

impl Value {
    /// Creates a string.
    pub fn str(text: impl Into<Arc<str>>) -> Self {
        Self::Str(text.into())
    }

    /// Creates a list.
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self::List(Arc::new(items.into_iter().collect()))
    }

    /// Creates a tuple.
    pub fn tuple(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(Arc::new(items.into_iter().collect()))
    }

    /// Creates a set; later duplicates are dropped.
    pub fn set(items: impl IntoIterator<Item = Self>) -> Self {
        let mut distinct = Dict::new();
        for item in items {
            distinct.insert(item, Self::None);
        }
        Self::Set(Arc::new(distinct.iter().map(|(key, _)| key.clone()).collect()))
    }

    /// Creates a dictionary with string keys.
    pub fn dict<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::from(entries.into_iter().map(|(key, value)| (Self::str(key), value)).collect::<Dict>())
    }

    /// Creates an integer of any size, as [`Value::Int`] if it fits.
    pub fn from_bigint(number: BigInt) -> Self {
        match number.to_i64() {
            Some(small) => Self::Int(small),
            None => Self::BigInt(Arc::new(number)),
        }
    }

    /// The name of the Python type, such as `str` or `NoneType`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::BigInt(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Set(_) => "set",
            Self::Dict(_) => "dict",
            Self::Date(_) => "date",
            Self::DateTime(_) => "datetime",
            Self::Function(_) => "function",
            Self::Media(media) => media.kind().name(),
        }
    }

    /// Python's truth value: empty, zero and `None` are false.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(items) | Self::Tuple(items) | Self::Set(items) => !items.is_empty(),
            Self::Dict(dict) => !dict.is_empty(),
            Self::BigInt(_) | Self::Date(_) | Self::DateTime(_) | Self::Function(_) | Self::Media(_) => true,
        }
    }

    /// Whether this is [`Value::None`].
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The content of a `str`.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a `bool` (not the truthiness of other types).
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// An integer in 64 bits, including `bool`, which is an `int` in Python.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Bool(truth) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    /// The items of a list (not of a tuple or set).
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The content of a `dict`.
    pub fn as_dict(&self) -> Option<&Dict> {
        match self {
            Self::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    /// The number as a float, rounded if necessary; `None` if it is not a number.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Bool(truth) => Some(f64::from(u8::from(*truth))),
            Self::Int(number) => Some(*number as f64),
            Self::BigInt(number) => number.to_f64(),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Str(left), Self::Str(right)) => left == right,
            (Self::Bytes(left), Self::Bytes(right)) => left == right,
            (Self::List(left), Self::List(right)) | (Self::Tuple(left), Self::Tuple(right)) => left == right,
            (Self::Set(left), Self::Set(right)) => {
                left.len() == right.len() && left.iter().all(|item| right.contains(item))
            }
            (Self::Dict(left), Self::Dict(right)) => left == right,
            (Self::Date(left), Self::Date(right)) => left == right,
            (Self::DateTime(left), Self::DateTime(right)) => left == right,
            (Self::Function(left), Self::Function(right)) => left == right,
            (Self::Media(left), Self::Media(right)) => left == right,
            (Self::Float(left), Self::Float(right)) => left == right,
            (Self::BigInt(left), Self::BigInt(right)) => left == right,
            (Self::Float(float), integer) | (integer, Self::Float(float)) => integer.equals_float(*float),
            _ => match (self.as_i64(), other.as_i64()) {
                (Some(left), Some(right)) => left == right,
                _ => false,
            },
        }
    }
}

impl Value {
    /// Compares an integer with a float exactly, as Python does, without rounding the integer.
    fn equals_float(&self, float: f64) -> bool {
        if !float.is_finite() || float.fract() != 0.0 {
            return false;
        }
        match self {
            Self::BigInt(number) => BigInt::from_f64(float).is_some_and(|other| other == **number),
            _ => self.as_i64().is_some_and(|number| {
                // 2^63 is the first float beyond `i64`; below it the conversion is exact.
                float.abs() < 9_223_372_036_854_775_808.0 && float as i64 == number
                    || (number == i64::MIN && float == -9_223_372_036_854_775_808.0)
            }),
        }
    }

    /// Hashes such that values that are equal in Python have equal hashes.
    pub(crate) fn hash_into<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::None => state.write_u8(0),
            Self::Bool(_) | Self::Int(_) => state.write_i64(self.as_i64().unwrap_or_default()),
            Self::BigInt(number) => number.hash(state),
            Self::Float(number) => match BigInt::from_f64(*number) {
                Some(whole) if number.fract() == 0.0 => Self::from_bigint(whole).hash_into(state),
                _ => state.write_u64(number.to_bits()),
            },
            Self::Str(text) => text.hash(state),
            Self::Bytes(bytes) => bytes.hash(state),
            Self::List(items) | Self::Tuple(items) => {
                state.write_usize(items.len());
                for item in items.iter() {
                    item.hash_into(state);
                }
            }
            Self::Set(items) => state.write_usize(items.len()),
            Self::Dict(dict) => state.write_usize(dict.len()),
            Self::Date(date) => date.hash(state),
            Self::DateTime(moment) => moment.hash(state),
            Self::Function(function) => function.hash(state),
            Self::Media(media) => media.kind().hash(state),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(Arc::new(items))
    }
}

impl From<Dict> for Value {
    fn from(dict: Dict) -> Self {
        Self::Dict(Arc::new(dict))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(option: Option<T>) -> Self {
        option.map_or(Self::None, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_across_types() {
        assert_eq!(Value::Int(1), Value::Bool(true));
        assert_eq!(Value::Int(1), Value::Float(1.0));
        assert_eq!(Value::Float(0.0), Value::Bool(false));
        assert_ne!(Value::Int(1), Value::str("1"));
        assert_ne!(Value::Int(i64::MAX), Value::Float(9_223_372_036_854_775_808.0));
        assert_eq!(Value::Int(i64::MIN), Value::Float(-9_223_372_036_854_775_808.0));
        let big = Value::from_bigint(BigInt::from(u128::MAX));
        assert_ne!(big, Value::Float(u128::MAX as f64));
        assert_eq!(Value::from_bigint(BigInt::from(1_u128 << 100)), Value::Float((1_u128 << 100) as f64));
    }

    #[test]
    fn containers_compare_by_kind() {
        assert_ne!(Value::list([Value::Int(1)]), Value::tuple([Value::Int(1)]));
        assert_eq!(
            Value::dict([("a", Value::Int(1)), ("b", Value::Int(2))]),
            Value::dict([("b", Value::Int(2)), ("a", Value::Int(1))])
        );
        assert_eq!(Value::set([Value::Int(1), Value::Bool(true)]), Value::set([Value::Float(1.0)]));
    }

    #[test]
    fn nan_does_not_equal_itself() {
        assert_ne!(Value::Float(f64::NAN), Value::Float(f64::NAN));
    }
}
