//! Methods and attributes of values, as in Python.

mod dictionary;
mod list;
mod number;
mod object;
mod string;

use std::sync::Arc;

use crate::arguments::Args;
use crate::error::Error;
use crate::eval::Vm;
use crate::value::{Items, Val};

pub(crate) use string::replaced;

/// The method names of a value.
fn names(value: &Val) -> &'static [&'static str] {
    match value {
        Val::Str(_) | Val::Markup(_) => &string::NAMES,
        Val::List(_) => &list::LIST_NAMES,
        Val::Tuple(_) => &list::TUPLE_NAMES,
        Val::Set(_) => &list::SET_NAMES,
        Val::Dict(_) => &dictionary::NAMES,
        Val::Int(_) | Val::Big(_) | Val::Bool(_) => &number::INTEGER_NAMES,
        Val::Float(_) => &number::FLOAT_NAMES,
        Val::Bytes(_) => &["decode", "hex"],
        Val::Date(_) => &["isoformat", "isoweekday", "toordinal", "weekday"],
        Val::DateTime(_) => &["date", "isoformat", "isoweekday", "toordinal", "weekday"],
        Val::Object(object) => object::names(object),
        Val::Undefined(_) | Val::None | Val::Function(_) | Val::Media(_) => &[],
    }
}

/// Whether a value has this method.
pub(crate) fn exists(value: &Val, name: &str) -> bool {
    names(value).contains(&name)
}

/// An attribute that is not a method.
pub(crate) fn property(vm: &mut Vm<'_>, value: &Val, name: &Arc<str>) -> Result<Option<Val>, Error> {
    match value {
        Val::Object(object) => object::property(vm, object, name),
        Val::Tuple(Items::Own(list)) if list.group => Ok(match &**name {
            "grouper" => list.items.borrow().first().cloned(),
            "list" => list.items.borrow().get(1).cloned(),
            _ => None,
        }),
        Val::Int(_) | Val::Big(_) | Val::Bool(_) | Val::Float(_) | Val::Date(_) | Val::DateTime(_) => {
            Ok(number::property(value, name))
        }
        _ => Ok(None),
    }
}

pub(crate) fn call(vm: &mut Vm<'_>, value: &Val, name: &str, args: Args) -> Result<Val, Error> {
    match value {
        Val::Str(text) | Val::Markup(text) => string::call(vm, value, text, name, args),
        Val::List(items) | Val::Tuple(items) => list::call(vm, value, items, name, args),
        Val::Set(items) => list::call_set(vm, items, name, args),
        Val::Dict(dict) => dictionary::call(vm, dict, name, args),
        Val::Bytes(bytes) => string::call_bytes(bytes, name, args),
        Val::Object(object) => object::call(vm, object, name, args),
        Val::Undefined(undefined) => Err(undefined.error()),
        _ => number::call(value, name, args),
    }
}

/// The error for calling an unknown method.
fn unknown(value: &Val, name: &str) -> Error {
    Error::type_error(format!("A value of type `{}` has no method `{name}`", value.type_name()))
}
