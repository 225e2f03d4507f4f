//! Lists, tuples and dictionaries, shared with the document or owned by the template.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::Val;
use super::release::{Contents, release};

/// The items of a list or tuple.
#[derive(Clone, Debug)]
pub(crate) enum Items {
    Shared(Arc<Vec<Value>>),
    Own(Rc<OwnList>),
}

/// Items owned by the running template.
#[derive(Debug, Default)]
pub(crate) struct OwnList {
    pub(crate) items: RefCell<Vec<Val>>,
    /// Whether this is a `groupby` pair, whose items are named `grouper` and `list`.
    pub(crate) group: bool,
}

impl Drop for OwnList {
    fn drop(&mut self) {
        release(Contents::Values(std::mem::take(self.items.get_mut())));
    }
}

impl Items {
    pub(crate) fn own(items: Vec<Val>) -> Self {
        Self::Own(Rc::new(OwnList { items: RefCell::new(items), group: false }))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared(items) => items.len(),
            Self::Own(list) => list.items.borrow().len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Val> {
        match self {
            Self::Shared(items) => items.get(index).map(Val::from),
            Self::Own(list) => list.items.borrow().get(index).cloned(),
        }
    }

    /// Iterates over the items; the list may change meanwhile.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Val> + '_ {
        let mut index = 0;
        std::iter::from_fn(move || {
            let item = self.get(index);
            index += 1;
            item
        })
    }

    pub(crate) fn to_vec(&self) -> Vec<Val> {
        match self {
            Self::Shared(items) => items.iter().map(Val::from).collect(),
            Self::Own(list) => list.items.borrow().clone(),
        }
    }

    pub(super) fn to_values(&self, depth: usize) -> Option<Arc<Vec<Value>>> {
        match self {
            Self::Shared(items) => Some(items.clone()),
            Self::Own(list) => {
                let items: Option<Vec<Value>> =
                    list.items.borrow().iter().map(|item| item.to_value_at(depth)).collect();
                items.map(Arc::new)
            }
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared(left), Self::Shared(right)) => Arc::ptr_eq(left, right),
            (Self::Own(left), Self::Own(right)) => Rc::ptr_eq(left, right),
            _ => false,
        }
    }
}

/// A dictionary, shared or owned.
#[derive(Clone, Debug)]
pub(crate) enum DictRef {
    Shared(Arc<Dict>),
    Own(Rc<RefCell<OwnDict>>),
}

/// A dictionary owned by the running template: a key index next to the values.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnDict {
    index: Dict,
    pub(crate) values: Vec<Val>,
}

impl Drop for OwnDict {
    fn drop(&mut self) {
        release(Contents::Values(std::mem::take(&mut self.values)));
    }
}

impl OwnDict {
    fn position(&self, key: &Value) -> Option<usize> {
        self.index.get(key).and_then(Value::as_i64).and_then(|position| usize::try_from(position).ok())
    }

    pub(crate) fn get(&self, key: &Value) -> Option<&Val> {
        self.position(key).and_then(|position| self.values.get(position))
    }

    pub(crate) fn get_str(&self, key: &str) -> Option<&Val> {
        let position = self.index.get_str(key).and_then(Value::as_i64)?;
        usize::try_from(position).ok().and_then(|position| self.values.get(position))
    }

    pub(crate) fn insert(&mut self, key: Value, value: Val) {
        if let Some(position) = self.position(&key) {
            self.values[position] = value;
            return;
        }
        self.index.insert(key, Value::Int(self.values.len() as i64));
        self.values.push(value);
    }

    pub(crate) fn remove(&mut self, key: &Value) -> Option<Val> {
        let position = self.position(key)?;
        let removed = self.values.remove(position);
        let keys: Vec<Value> = self.index.keys().cloned().collect();
        self.index = keys
            .into_iter()
            .enumerate()
            .filter(|(index, _)| *index != position)
            .enumerate()
            .map(|(index, (_, key))| (key, Value::Int(index as i64)))
            .collect();
        Some(removed)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn entry(&self, index: usize) -> Option<(Value, Val)> {
        let (key, _) = self.index.get_index(index)?;
        Some((key.clone(), self.values.get(index)?.clone()))
    }
}

impl DictRef {
    pub(crate) fn own(dict: OwnDict) -> Self {
        Self::Own(Rc::new(RefCell::new(dict)))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared(dict) => dict.len(),
            Self::Own(dict) => dict.borrow().len(),
        }
    }

    pub(crate) fn get(&self, key: &Value) -> Option<Val> {
        match self {
            Self::Shared(dict) => dict.get(key).map(Val::from),
            Self::Own(dict) => dict.borrow().get(key).cloned(),
        }
    }

    pub(crate) fn get_str(&self, key: &str) -> Option<Val> {
        match self {
            Self::Shared(dict) => dict.get_str(key).map(Val::from),
            Self::Own(dict) => dict.borrow().get_str(key).cloned(),
        }
    }

    pub(crate) fn entry(&self, index: usize) -> Option<(Val, Val)> {
        match self {
            Self::Shared(dict) => dict.get_index(index).map(|(key, value)| (key.into(), value.into())),
            Self::Own(dict) => dict.borrow().entry(index).map(|(key, value)| (Val::from(&key), value)),
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (Val, Val)> + '_ {
        let mut index = 0;
        std::iter::from_fn(move || {
            let entry = self.entry(index);
            index += 1;
            entry
        })
    }

    /// A shallow copy owned by the template.
    pub(crate) fn to_own(&self) -> OwnDict {
        match self {
            Self::Shared(dict) => {
                let mut own = OwnDict::default();
                for (key, value) in dict.iter() {
                    own.insert(key.clone(), value.into());
                }
                own
            }
            Self::Own(dict) => dict.borrow().clone(),
        }
    }

    pub(super) fn to_value(&self, depth: usize) -> Option<Value> {
        match self {
            Self::Shared(dict) => Some(Value::Dict(dict.clone())),
            Self::Own(dict) => {
                let dict = dict.borrow();
                let mut result = Dict::with_capacity(dict.len());
                for (key, value) in dict.index.keys().zip(&dict.values) {
                    result.insert(key.clone(), value.to_value_at(depth)?);
                }
                Some(Value::from(result))
            }
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared(left), Self::Shared(right)) => Arc::ptr_eq(left, right),
            (Self::Own(left), Self::Own(right)) => Rc::ptr_eq(left, right),
            _ => false,
        }
    }
}
