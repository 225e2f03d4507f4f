//! Objects that exist only during rendering.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::iterate::{Iter, ValueIterator};
use super::release::{Contents, release};
use super::{DictRef, OwnDict, Val};
use crate::ast::{For, Macro};
use crate::eval::Frame;
use crate::globals::Global;

/// An undefined value.
#[derive(Debug)]
pub(crate) struct Undefined {
    pub(crate) cause: UndefinedCause,
    /// Whether even printing it fails.
    pub(crate) strict: bool,
}

/// Why a value is undefined.
#[derive(Debug)]
pub(crate) enum UndefinedCause {
    Variable(Arc<str>),
    Attribute { type_name: &'static str, name: String },
    Message(Box<str>),
}

/// An object that is not plain data.
#[derive(Debug)]
pub(crate) enum Object {
    Range {
        start: i64,
        stop: i64,
        step: i64,
    },
    /// A generator or iterator, with its `repr`.
    Iterator {
        source: RefCell<Iter>,
        label: &'static str,
    },
    View(ViewKind, DictRef),
    Macro(MacroObject),
    Loop(LoopState),
    Namespace(RefCell<OwnDict>),
    Cycler(Cycler),
    Joiner(Joiner),
    /// A bound method.
    Method {
        receiver: Val,
        name: Arc<str>,
    },
    Global(Global),
    /// `self`, and one of its blocks.
    Template,
    Block(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewKind {
    Keys,
    Values,
    Items,
}

#[derive(Debug)]
pub(crate) struct MacroObject {
    pub(crate) definition: Arc<Macro>,
    pub(crate) frame: Rc<Frame>,
    pub(crate) autoescape: bool,
}

#[derive(Debug)]
pub(crate) struct Cycler {
    pub(crate) items: Vec<Val>,
    pub(crate) position: Cell<usize>,
}

#[derive(Debug)]
pub(crate) struct Joiner {
    pub(crate) separator: Val,
    pub(crate) used: Cell<bool>,
}

/// `loop`: the state of a loop, visible to its body.
#[derive(Debug)]
pub(crate) struct LoopState {
    pub(crate) iterator: RefCell<Iter>,
    /// The length, if known from the start.
    pub(crate) length: Cell<Option<usize>>,
    /// 1-based; 0 before the first item.
    pub(crate) index: Cell<usize>,
    pub(crate) ahead: RefCell<Option<Val>>,
    pub(crate) current: RefCell<Option<Val>>,
    pub(crate) previous: RefCell<Option<Val>>,
    pub(crate) changed: RefCell<Option<Val>>,
    pub(crate) depth: usize,
    /// The loop and its enclosing frame, if it can be called recursively.
    pub(crate) recursive: Option<(Arc<For>, Rc<Frame>)>,
}

impl Drop for Object {
    fn drop(&mut self) {
        match self {
            Self::Iterator { source, .. } => release(Contents::Iterator(source.replace(Iter::Empty))),
            Self::Method { receiver, .. } => {
                release(Contents::Values(vec![std::mem::replace(receiver, Val::None)]));
            }
            Self::Cycler(cycler) => release(Contents::Values(std::mem::take(&mut cycler.items))),
            Self::Loop(state) => release(Contents::Iterator(state.iterator.replace(Iter::Empty))),
            _ => {}
        }
    }
}

impl Object {
    pub(crate) fn generator(iterator: impl ValueIterator + 'static, label: &'static str) -> Val {
        Val::object(Self::Iterator { source: RefCell::new(Iter::Dynamic(Box::new(iterator))), label })
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Range { .. } => "range",
            Self::Iterator { label, .. } => label,
            Self::View(ViewKind::Keys, _) => "dict_keys",
            Self::View(ViewKind::Values, _) => "dict_values",
            Self::View(ViewKind::Items, _) => "dict_items",
            Self::Macro(_) => "Macro",
            Self::Loop(_) => "LoopContext",
            Self::Namespace(_) => "Namespace",
            Self::Cycler(_) => "Cycler",
            Self::Joiner(_) => "Joiner",
            Self::Method { .. } => "builtin_function_or_method",
            Self::Global(_) => "function",
            Self::Template => "TemplateReference",
            Self::Block(_) => "BlockReference",
        }
    }

    pub(crate) fn length(&self) -> Option<usize> {
        match self {
            Self::Range { start, stop, step } => Some(range_length(*start, *stop, *step)),
            Self::View(_, dict) => Some(dict.len()),
            _ => None,
        }
    }

    pub(crate) fn truth(&self) -> bool {
        match self {
            // A loop has a length, but runs only with items.
            Self::Range { .. } | Self::View(..) => self.length() != Some(0),
            _ => true,
        }
    }

    pub(crate) fn is_callable(&self) -> bool {
        matches!(
            self,
            Self::Macro(_)
                | Self::Loop(_)
                | Self::Joiner(_)
                | Self::Method { .. }
                | Self::Global(_)
                | Self::Block(_)
        )
    }
}

/// The length of `range(start, stop, step)`.
pub(crate) fn range_length(start: i64, stop: i64, step: i64) -> usize {
    let (low, high) = if step > 0 { (start, stop) } else { (stop, start) };
    if low >= high {
        return 0;
    }
    let distance = i128::from(high) - i128::from(low);
    let step = i128::from(step).abs();
    usize::try_from((distance + step - 1) / step).unwrap_or(usize::MAX)
}
