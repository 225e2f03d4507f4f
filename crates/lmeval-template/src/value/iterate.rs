//! Iteration over containers and generators.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use lmeval_pycompat::Value;

use super::object::range_length;
use super::{DictRef, Items, Object, Val, ViewKind};
use crate::error::Error;
use crate::eval::Vm;

/// Yields values, running parts of the template if needed.
pub(crate) trait ValueIterator: fmt::Debug {
    fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error>;
}

/// An iterator over a value.
#[derive(Debug)]
pub(crate) enum Iter {
    Empty,
    Items {
        items: Items,
        index: usize,
    },
    Values {
        items: Arc<Vec<Value>>,
        index: usize,
    },
    Text {
        text: Arc<str>,
        position: usize,
    },
    Bytes {
        bytes: Arc<[u8]>,
        index: usize,
    },
    Dict {
        dict: DictRef,
        kind: ViewKind,
        index: usize,
        length: usize,
    },
    Range {
        start: i64,
        step: i64,
        index: usize,
        length: usize,
    },
    Owned(std::vec::IntoIter<Val>),
    /// The rest of another iterator object.
    Object(Rc<Object>),
    Dynamic(Box<dyn ValueIterator>),
}

impl Iter {
    /// Python's `iter`.
    pub(crate) fn over(value: &Val) -> Result<Self, Error> {
        Ok(match value {
            Val::Undefined(undefined) if undefined.strict => return Err(undefined.error()),
            Val::Undefined(_) => Self::Empty,
            Val::List(items) | Val::Tuple(items) => Self::Items { items: items.clone(), index: 0 },
            Val::Set(items) => Self::Values { items: items.clone(), index: 0 },
            Val::Str(text) | Val::Markup(text) => Self::Text { text: text.clone(), position: 0 },
            Val::Bytes(bytes) => Self::Bytes { bytes: bytes.clone(), index: 0 },
            Val::Dict(dict) => Self::dict(dict, ViewKind::Keys),
            Val::Object(object) => match &**object {
                Object::Range { start, stop, step } => Self::Range {
                    start: *start,
                    step: *step,
                    index: 0,
                    length: range_length(*start, *stop, *step),
                },
                Object::View(kind, dict) => Self::dict(dict, *kind),
                Object::Iterator { .. } | Object::Loop(_) => Self::Object(object.clone()),
                _ => return Err(not_iterable(value)),
            },
            _ => return Err(not_iterable(value)),
        })
    }

    fn dict(dict: &DictRef, kind: ViewKind) -> Self {
        Self::Dict { dict: dict.clone(), kind, index: 0, length: dict.len() }
    }

    pub(crate) fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        vm.spend(1)?;
        Ok(match self {
            Self::Empty => None,
            Self::Items { items, index } => {
                let item = items.get(*index);
                *index += 1;
                item
            }
            Self::Values { items, index } => {
                let item = items.get(*index).map(Val::from);
                *index += 1;
                item
            }
            Self::Text { text, position } => {
                let character = text[*position..].chars().next();
                character.map(|character| {
                    *position += character.len_utf8();
                    Val::str(&*character.encode_utf8(&mut [0; 4]))
                })
            }
            Self::Bytes { bytes, index } => {
                let item = bytes.get(*index).map(|byte| Val::Int(i64::from(*byte)));
                *index += 1;
                item
            }
            Self::Dict { dict, kind, index, length } => {
                if dict.len() != *length {
                    return Err(Error::value_error("The dictionary was resized by the loop that reads it"));
                }
                let entry = dict.entry(*index);
                *index += 1;
                entry.map(|(key, value)| match kind {
                    ViewKind::Keys => key,
                    ViewKind::Values => value,
                    ViewKind::Items => Val::tuple(vec![key, value]),
                })
            }
            Self::Range { start, step, index, length } => {
                if *index >= *length {
                    return Ok(None);
                }
                let number = *start + *step * *index as i64;
                *index += 1;
                Some(Val::Int(number))
            }
            Self::Owned(items) => items.next(),
            Self::Object(object) => match &**object {
                Object::Iterator { source, .. } => match source.try_borrow_mut() {
                    Ok(mut source) => source.next(vm)?,
                    Err(_) => return Err(Error::value_error("The generator reads from itself")),
                },
                Object::Loop(state) => {
                    vm.advance_loop(state)?.map(|item| Val::tuple(vec![item, Val::Object(object.clone())]))
                }
                _ => None,
            },
            Self::Dynamic(iterator) => vm.nested(|vm| iterator.next(vm))?,
        })
    }

    /// Collects the remaining items.
    pub(crate) fn collect(mut self, vm: &mut Vm<'_>) -> Result<Vec<Val>, Error> {
        let mut items = Vec::new();
        while let Some(item) = self.next(vm)? {
            items.push(item);
        }
        Ok(items)
    }
}

fn not_iterable(value: &Val) -> Error {
    Error::type_error(format!("A value of type `{}` cannot be iterated", value.type_name()))
}
