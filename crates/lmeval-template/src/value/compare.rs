//! Python's equality, ordering and membership.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::{FromPrimitive, Signed};

use super::{Iter, MAXIMUM_DEPTH, Object, Val, ViewKind};
use crate::error::Error;
use crate::eval::Vm;

/// Python's `==`.
pub(crate) fn equals(left: &Val, right: &Val) -> Result<bool, Error> {
    equals_at(left, right, 0)
}

fn equals_at(left: &Val, right: &Val, depth: usize) -> Result<bool, Error> {
    if depth > MAXIMUM_DEPTH {
        return Err(Error::limit("The values are nested too deeply to compare"));
    }
    Ok(match (left, right) {
        (Val::Undefined(undefined), _) | (_, Val::Undefined(undefined)) if undefined.strict => {
            return Err(undefined.error());
        }
        (Val::Undefined(_), Val::Undefined(_)) | (Val::None, Val::None) => true,
        (Val::Str(left) | Val::Markup(left), Val::Str(right) | Val::Markup(right)) => left == right,
        (Val::List(left), Val::List(right)) | (Val::Tuple(left), Val::Tuple(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !same_or_equal(&left, &right, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Dict(left), Val::Dict(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (key, value) in left.entries() {
                match right.get(&key.to_key()?) {
                    Some(other) if same_or_equal(&value, &other, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Val::Object(left), Val::Object(right)) => match (&**left, &**right) {
            (Object::Range { .. }, Object::Range { .. }) => range_parts(left) == range_parts(right),
            _ => std::rc::Rc::ptr_eq(left, right),
        },
        (Val::Object(_) | Val::Undefined(_), _) | (_, Val::Object(_) | Val::Undefined(_)) => false,
        // Scalars, sets and dates compare as plain values; container pairs are handled above.
        (Val::List(_) | Val::Tuple(_) | Val::Dict(_), _)
        | (_, Val::List(_) | Val::Tuple(_) | Val::Dict(_)) => false,
        (Val::Int(left), Val::Int(right)) => left == right,
        (left, right) => left.to_value() == right.to_value(),
    })
}

fn range_parts(object: &Object) -> (usize, i64, i64) {
    let Object::Range { start, stop, step } = object else {
        return (0, 0, 0);
    };
    match super::object::range_length(*start, *stop, *step) {
        0 => (0, 0, 0),
        1 => (1, *start, 0),
        length => (length, *start, *step),
    }
}

/// Items of containers are equal to themselves even if `==` says otherwise, as for NaN.
fn same_or_equal(left: &Val, right: &Val, depth: usize) -> Result<bool, Error> {
    match (left, right) {
        (Val::Float(left), Val::Float(right)) if left.to_bits() == right.to_bits() => Ok(true),
        (Val::Undefined(left), Val::Undefined(right)) if std::rc::Rc::ptr_eq(left, right) => Ok(true),
        _ => equals_at(left, right, depth),
    }
}

fn no_order(left: &Val, right: &Val) -> Error {
    Error::type_error(format!(
        "Values of types `{}` and `{}` cannot be ordered",
        left.type_name(),
        right.type_name()
    ))
}

/// The order of two values; `None` if one is NaN.
pub(crate) fn compare(left: &Val, right: &Val) -> Result<Option<Ordering>, Error> {
    compare_at(left, right, 0)
}

fn compare_at(left: &Val, right: &Val, depth: usize) -> Result<Option<Ordering>, Error> {
    if depth > MAXIMUM_DEPTH {
        return Err(Error::limit("The values are nested too deeply to compare"));
    }
    match (left, right) {
        (Val::Undefined(undefined), _) | (_, Val::Undefined(undefined)) => Err(undefined.error()),
        (Val::Int(left), Val::Int(right)) => Ok(Some(left.cmp(right))),
        (Val::Str(left) | Val::Markup(left), Val::Str(right) | Val::Markup(right)) => {
            Ok(Some(left.cmp(right)))
        }
        (Val::Bytes(left), Val::Bytes(right)) => Ok(Some(left.cmp(right))),
        (Val::Float(left), Val::Float(right)) => Ok(left.partial_cmp(right)),
        (Val::List(left), Val::List(right)) | (Val::Tuple(left), Val::Tuple(right)) => {
            for (left, right) in left.iter().zip(right.iter()) {
                if !same_or_equal(&left, &right, depth + 1)? {
                    return compare_at(&left, &right, depth + 1);
                }
            }
            Ok(Some(left.len().cmp(&right.len())))
        }
        (Val::Float(float), integer) if is_integer(integer) => {
            Ok(compare_with_float(integer, *float).map(Ordering::reverse))
        }
        (integer, Val::Float(float)) if is_integer(integer) => Ok(compare_with_float(integer, *float)),
        (Val::Date(left), Val::Date(right)) => Ok(Some(left.cmp(right))),
        (left_value, right_value) => match (left_value.as_bigint(), right_value.as_bigint()) {
            (Some(left), Some(right)) => Ok(Some(left.cmp(&right))),
            _ => Err(no_order(left, right)),
        },
    }
}

fn is_integer(value: &Val) -> bool {
    matches!(value, Val::Int(_) | Val::Big(_) | Val::Bool(_))
}

/// Exact comparison of an integer and a float.
fn compare_with_float(integer: &Val, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    let integer = integer.as_bigint()?;
    if float.is_infinite() {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = BigInt::from_f64(float.trunc())?;
    let order = integer.cmp(&whole);
    if order != Ordering::Equal || float.fract() == 0.0 {
        return Some(order);
    }
    Some(if float.is_sign_negative() || whole.is_negative() { Ordering::Greater } else { Ordering::Less })
}

/// Python's `<`.
pub(crate) fn less_than(left: &Val, right: &Val) -> Result<bool, Error> {
    Ok(compare(left, right)? == Some(Ordering::Less))
}

/// Python's `in`.
pub(crate) fn contains(vm: &mut Vm<'_>, container: &Val, item: &Val) -> Result<bool, Error> {
    match container {
        Val::Str(text) | Val::Markup(text) => match item {
            Val::Str(part) | Val::Markup(part) => Ok(text.contains(&**part)),
            Val::Undefined(undefined) if undefined.strict => Err(undefined.error()),
            other => Err(Error::type_error(format!(
                "`in` on a string needs another string, not a value of type `{}`",
                other.type_name()
            ))),
        },
        // Neither an undefined value nor a runtime object can be a key.
        Val::Dict(_) | Val::Set(_) if matches!(item, Val::Object(object) if !matches!(**object, Object::View(..))) => {
            Ok(false)
        }
        Val::Dict(_) | Val::Set(_) if matches!(item, Val::Undefined(undefined) if !undefined.strict) => {
            Ok(false)
        }
        Val::Dict(dict) => Ok(dict.get(&item.to_key()?).is_some()),
        Val::Set(items) => {
            let key = item.to_key()?;
            Ok(items.contains(&key))
        }
        Val::Bytes(bytes) => match item.as_int() {
            Some(number) => Ok(bytes.iter().any(|byte| i64::from(*byte) == number)),
            None => Err(Error::type_error("`in` on bytes needs other bytes")),
        },
        Val::Object(object) => match &**object {
            Object::View(ViewKind::Keys, dict) => Ok(dict.get(&item.to_key()?).is_some()),
            _ => search(vm, container, item),
        },
        _ => search(vm, container, item),
    }
}

fn search(vm: &mut Vm<'_>, container: &Val, item: &Val) -> Result<bool, Error> {
    let mut items = Iter::over(container)?;
    while let Some(candidate) = items.next(vm)? {
        if same_or_equal(&candidate, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A stable sort with a fallible comparison.
///
/// The standard library's sort may panic if the order is not total, as with NaN.
pub(crate) fn sort_by<T>(
    items: Vec<T>,
    less: &mut dyn FnMut(&T, &T) -> Result<bool, Error>,
) -> Result<Vec<T>, Error> {
    if items.len() < 2 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let left = sort_by(left, less)?;
    let right = sort_by(right, less)?;
    let mut result = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let take_right = less(second, first)?;
        result.extend(if take_right { right.next() } else { left.next() });
    }
    result.extend(left);
    result.extend(right);
    Ok(result)
}
