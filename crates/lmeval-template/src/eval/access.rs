//! Attributes, items and slices.

use std::sync::Arc;

use super::Vm;
use crate::error::Error;
use crate::methods;
use crate::value::{Items, Object, UndefinedCause, Val, repr_of};

/// Methods that change their receiver; chat templates must not call them.
const MUTATORS: [&str; 15] = [
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
    "sort",
    "update",
    "add",
    "discard",
    "difference_update",
    "symmetric_difference_update",
];

/// Whether a method changes its receiver.
pub(crate) fn is_mutator(name: &str) -> bool {
    MUTATORS.contains(&name)
}

impl Vm<'_> {
    /// `object.name`: an attribute or method if it exists, else an item.
    pub(crate) fn attribute(&mut self, object: &Val, name: &Arc<str>) -> Result<Val, Error> {
        if let Val::Undefined(undefined) = object {
            // Reference: Python's own attributes exist even there, but are hidden from chat templates.
            if self.settings.chat && name.starts_with("__") {
                return Ok(self.missing(object, name));
            }
            return Err(undefined.error());
        }
        if let Some(value) = self.plain_attribute(object, name)? {
            return Ok(value);
        }
        if let Val::Dict(dict) = object
            && let Some(value) = dict.get_str(name)
        {
            return Ok(value);
        }
        if let Val::Object(inner) = object
            && let Object::Template = &**inner
        {
            // The blocks of `self` are items.
            let index = self.program.blocks.iter().position(|block| block.name == *name);
            if let Some(index) = index {
                return Ok(Val::object(Object::Block(index)));
            }
        }
        Ok(self.missing(object, name))
    }

    fn missing(&self, object: &Val, name: &str) -> Val {
        self.undefined(UndefinedCause::Attribute { type_name: object.type_name(), name: name.to_owned() })
    }

    /// An attribute in Python's sense, without items.
    pub(crate) fn plain_attribute(&mut self, object: &Val, name: &Arc<str>) -> Result<Option<Val>, Error> {
        if self.settings.chat && (name.starts_with('_') || is_mutator(name)) {
            return Ok(None);
        }
        if methods::exists(object, name) {
            return Ok(Some(Val::object(Object::Method { receiver: object.clone(), name: name.clone() })));
        }
        methods::property(self, object, name)
    }

    /// `object[key]`: an item if it exists, else an attribute.
    pub(crate) fn item(&mut self, object: &Val, key: &Val) -> Result<Val, Error> {
        if let Val::Undefined(undefined) = object {
            return Err(undefined.error());
        }
        if let Some(value) = Self::plain_item(object, key)? {
            return Ok(value);
        }
        if let Some(name) = key.as_text()
            && let Some(value) = self.plain_attribute(object, name)?
        {
            return Ok(value);
        }
        if let Val::Undefined(undefined) = key
            && undefined.strict
            && matches!(object, Val::Dict(_))
        {
            return Err(undefined.error());
        }
        let name = match key {
            Val::Str(text) => text.to_string(),
            other => repr_of(other)?,
        };
        Ok(self.missing(object, &name))
    }

    /// An item in Python's sense; `None` if Python raises a lookup or type error.
    pub(crate) fn plain_item(object: &Val, key: &Val) -> Result<Option<Val>, Error> {
        if let Val::Dict(dict) = object {
            return Ok(match key {
                Val::Str(text) | Val::Markup(text) => dict.get_str(text),
                Val::Undefined(undefined) if undefined.strict => return Err(undefined.error()),
                _ => key.to_key().ok().and_then(|key| dict.get(&key)),
            });
        }
        let Some(index) = key.as_int() else {
            return Ok(None);
        };
        Ok(match object {
            Val::List(items) | Val::Tuple(items) => {
                position(index, items.len()).and_then(|index| items.get(index))
            }
            Val::Str(text) | Val::Markup(text) => {
                let character = if index >= 0 {
                    text.chars().nth(usize::try_from(index).unwrap_or(usize::MAX))
                } else {
                    let back = usize::try_from(index.unsigned_abs() - 1).unwrap_or(usize::MAX);
                    text.chars().rev().nth(back)
                };
                character.map(|character| Val::text_like(object, &*character.encode_utf8(&mut [0; 4])))
            }
            Val::Bytes(bytes) => position(index, bytes.len()).map(|index| Val::Int(i64::from(bytes[index]))),
            Val::Object(inner) => match &**inner {
                Object::Range { start, step, .. } => {
                    let length = inner.length().unwrap_or_default();
                    position(index, length).map(|index| Val::Int(*start + *step * index as i64))
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// `object[start:stop:step]`.
    pub(crate) fn slice(object: &Val, parts: &[Option<Val>; 3]) -> Result<Val, Error> {
        if let Val::Undefined(undefined) = object {
            return Err(undefined.error());
        }
        let bounds = |length: usize| slice_indices(parts, length);
        Ok(match object {
            Val::List(items) => Val::list(sliced(items, bounds(items.len())?)),
            Val::Tuple(items) => Val::tuple(sliced(items, bounds(items.len())?)),
            Val::Str(text) | Val::Markup(text) => {
                if text.is_ascii() {
                    let (start, step, count) = bounds(text.len())?;
                    if step == 1 {
                        let start = usize::try_from(start).unwrap_or_default();
                        return Ok(Val::text_like(object, &text[start..start + count]));
                    }
                }
                let characters: Vec<char> = text.chars().collect();
                let indices = SliceIndices::new(bounds(characters.len())?);
                Val::text_like(object, indices.map(|index| characters[index]).collect::<String>())
            }
            Val::Bytes(bytes) => {
                let indices = SliceIndices::new(bounds(bytes.len())?);
                Val::Bytes(indices.map(|index| bytes[index]).collect())
            }
            Val::Object(inner) => {
                let Object::Range { start, step, .. } = &**inner else {
                    return Err(not_sliceable(object));
                };
                let (first, end, by) = slice_bounds(parts, inner.length().unwrap_or_default())?;
                Val::object(Object::Range {
                    start: start + step * first,
                    stop: start + step * end,
                    step: step.saturating_mul(by),
                })
            }
            _ => return Err(not_sliceable(object)),
        })
    }
}

fn not_sliceable(object: &Val) -> Error {
    Error::type_error(format!("A value of type `{}` cannot be sliced", object.type_name()))
}

fn position(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(i64::try_from(length).ok()?)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

fn sliced(items: &Items, bounds: (i64, i64, usize)) -> Vec<Val> {
    SliceIndices::new(bounds).filter_map(|index| items.get(index)).collect()
}

struct SliceIndices {
    next: i64,
    step: i64,
    left: usize,
}

impl SliceIndices {
    fn new((next, step, left): (i64, i64, usize)) -> Self {
        Self { next, step, left }
    }
}

impl Iterator for SliceIndices {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let index = usize::try_from(self.next).ok();
        self.next = self.next.saturating_add(self.step);
        index
    }
}

/// First index, step and count of a slice.
fn slice_indices(parts: &[Option<Val>; 3], length: usize) -> Result<(i64, i64, usize), Error> {
    let (start, stop, step) = slice_bounds(parts, length)?;
    let count = if step > 0 {
        if stop > start { (stop - start - 1) / step + 1 } else { 0 }
    } else if stop < start {
        (start - stop - 1) / step.saturating_neg() + 1
    } else {
        0
    };
    Ok((start, step, usize::try_from(count).unwrap_or_default()))
}

/// Start, stop and step of a slice.
fn slice_bounds(parts: &[Option<Val>; 3], length: usize) -> Result<(i64, i64, i64), Error> {
    let number = |part: &Option<Val>| -> Result<Option<i64>, Error> {
        match part {
            None | Some(Val::None) => Ok(None),
            Some(Val::Big(number)) => {
                Ok(Some(if number.sign() == num_bigint::Sign::Minus { i64::MIN } else { i64::MAX }))
            }
            Some(Val::Undefined(undefined)) => Err(undefined.error()),
            Some(value) => match value.as_int() {
                Some(number) => Ok(Some(number)),
                None => Err(Error::type_error(format!(
                    "Slice bounds are integers, not a value of type `{}`",
                    value.type_name()
                ))),
            },
        }
    };
    let step = number(&parts[2])?.unwrap_or(1);
    if step == 0 {
        return Err(Error::value_error("A slice needs a nonzero step"));
    }
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |index: i64| {
        if index < 0 { index.saturating_add(length).max(low) } else { index.min(high) }
    };
    let start = number(&parts[0])?.map_or(if step > 0 { low } else { high }, clamp);
    let stop = number(&parts[1])?.map_or(if step > 0 { high } else { low }, clamp);
    Ok((start, stop, step))
}
