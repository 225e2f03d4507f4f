//! The interpreter.

mod access;
mod call;
mod expression;
mod loops;
mod statement;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use lmeval_pycompat::Dict;
use rustc_hash::FxHashMap;

use crate::ast::{Load, Slot};
use crate::error::{Error, ErrorKind};
use crate::globals;
use crate::program::{Program, Settings};
use crate::value::{Object, Undefined, UndefinedCause, Val};

/// The variables of one running function.
#[derive(Debug)]
pub(crate) struct Frame {
    slots: RefCell<Vec<Option<Val>>>,
    parent: Option<Rc<Frame>>,
}

impl Frame {
    fn new(size: usize, parent: Option<Rc<Self>>) -> Rc<Self> {
        Rc::new(Self { slots: RefCell::new(vec![None; size]), parent })
    }

    fn with_function<T>(&self, up: u16, use_it: impl FnOnce(&Self) -> T) -> T {
        let mut frame = self;
        for _ in 0..up {
            match &frame.parent {
                Some(parent) => frame = parent,
                None => break,
            }
        }
        use_it(frame)
    }

    fn get(&self, slot: Slot) -> Option<Val> {
        self.with_function(slot.up, |frame| {
            frame.slots.borrow().get(usize::from(slot.index)).cloned().flatten()
        })
    }

    fn set(&self, slot: Slot, value: Option<Val>) {
        self.with_function(slot.up, |frame| {
            if let Some(place) = frame.slots.borrow_mut().get_mut(usize::from(slot.index)) {
                *place = value;
            }
        });
    }
}

/// How deep calls, statements and expressions may be nested while a template runs.
///
/// Enough for the 247 levels that a recursive macro reaches in Python, and less than 2 MiB of stack; without
/// optimisation a level takes four times as much.
const MAXIMUM_DEPTH: usize = if cfg!(debug_assertions) { 400 } else { 1200 };

/// The largest text or list, in bytes or items, that one operation may make.
pub(crate) const MAXIMUM_SIZE: usize = 1 << 28;

/// What a statement wants to happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// A running template.
pub(crate) struct Vm<'a> {
    pub(crate) settings: &'a Settings,
    program: &'a Program,
    document: &'a Dict,
    /// Assignments at the top level, which blocks can see.
    exported: FxHashMap<Arc<str>, Val>,
    /// Variables around a `scoped` block.
    scoped: Vec<FxHashMap<Arc<str>, Val>>,
    /// Copies of document values for a template that changes them.
    thawed: FxHashMap<Arc<str>, Val>,
    frame: Rc<Frame>,
    fuel: u64,
    depth: usize,
    pub(crate) autoescape: bool,
    /// State of the generator behind `random` and `lipsum`.
    pub(crate) random: u64,
}

impl<'a> Vm<'a> {
    /// Renders a program.
    pub(crate) fn render(
        program: &'a Program,
        settings: &'a Settings,
        document: &'a Dict,
        out: &mut String,
    ) -> Result<(), Error> {
        let resolved = &program.resolved;
        let mut vm = Self {
            settings,
            program,
            document,
            exported: FxHashMap::default(),
            scoped: Vec::new(),
            thawed: FxHashMap::default(),
            frame: Frame::new(resolved.slots, None),
            fuel: settings.fuel,
            depth: 0,
            autoescape: false,
            random: 0x9E37_79B9_7F4A_7C15,
        };
        if let Some(slot) = resolved.self_slot {
            vm.frame.set(slot, Some(Val::object(Object::Template)));
        }
        vm.enter_scope(&resolved.loads);
        vm.statements(&resolved.body, out).map(|_| ())
    }

    /// Takes steps from what the template may use.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Error> {
        match self.fuel.checked_sub(steps) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => Err(Error::limit("The template takes too many steps")),
        }
    }

    /// Fails where an operation would make something too large.
    pub(crate) fn check_size(size: Option<usize>) -> Result<usize, Error> {
        size.filter(|size| *size <= MAXIMUM_SIZE)
            .ok_or_else(|| Error::limit("The template makes a value that is too large"))
    }

    /// Runs something one level deeper.
    pub(crate) fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.deeper()?;
        let result = run(self);
        self.depth -= 1;
        result
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAXIMUM_DEPTH {
            self.depth -= 1;
            return Err(Error::limit("The template is nested too deeply while it runs"));
        }
        Ok(())
    }

    /// Fills the variables of a scope that is entered.
    fn enter_scope(&mut self, loads: &[(u16, Load)]) {
        for (index, load) in loads {
            let value = match load {
                Load::Resolve(name) => self.lookup(name),
                Load::Alias(slot) => self.frame.get(*slot),
                Load::Undefined => None,
            };
            self.frame.set(Slot { up: 0, index: *index }, value);
        }
    }

    /// The value of a name that no scope of the template assigns.
    fn lookup(&mut self, name: &Arc<str>) -> Option<Val> {
        if let Some(value) = self.scoped.last().and_then(|scope| scope.get(name)) {
            return Some(value.clone());
        }
        if let Some(value) = self.exported.get(name) {
            return Some(value.clone());
        }
        if let Some(value) = self.document.get_str(name) {
            if self.program.changes_values {
                let thawed = self.thawed.entry(name.clone()).or_insert_with(|| Val::thawed(value));
                return Some(thawed.clone());
            }
            return Some(Val::from(value));
        }
        globals::lookup(name, self.settings.chat).map(|global| Val::object(Object::Global(global)))
    }

    pub(crate) fn undefined(&self, cause: UndefinedCause) -> Val {
        Val::Undefined(Rc::new(Undefined { cause, strict: self.settings.strict }))
    }

    pub(crate) fn undefined_message(&self, message: &str) -> Val {
        self.undefined(UndefinedCause::Message(message.into()))
    }

    fn export(&mut self, name: &Arc<str>, value: &Val) {
        self.exported.insert(name.clone(), value.clone());
    }

    /// The statement named by a tag needs other templates.
    fn unsupported(tag: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("`{tag}` needs other templates, and there are none"))
    }
}
