//! Evaluates the syntax tree.

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

use crate::ast::{Body, Statement};
use crate::error::{Error, ErrorKind};
use crate::globals;
use crate::program::{Program, Settings};
use crate::scope::{VariableId, VariableSlot};
use crate::value::{Object, Undefined, UndefinedCause, Val};

/// The variables of a running function.
#[derive(Debug)]
pub(crate) struct Frame {
    slots: RefCell<Vec<Option<Val>>>,
    parent: Option<Rc<Frame>>,
    /// The variables around a `scoped` block, for the block and the functions it defines.
    context: Option<Rc<Context>>,
}

type Context = FxHashMap<Arc<str>, Val>;

impl Frame {
    fn of_block(size: usize, context: Option<Rc<Context>>) -> Rc<Self> {
        Rc::new(Self { slots: RefCell::new(vec![None; size]), parent: None, context })
    }

    fn inside(parent: Rc<Self>, size: usize) -> Rc<Self> {
        let context = parent.context.clone();
        Rc::new(Self { slots: RefCell::new(vec![None; size]), parent: Some(parent), context })
    }

    /// The frame `up` functions outward.
    fn outer(&self, up: u32) -> &Self {
        let mut frame = self;
        for _ in 0..up {
            match &frame.parent {
                Some(parent) => frame = parent,
                None => break,
            }
        }
        frame
    }

    fn get(&self, index: u32) -> Option<Val> {
        self.slots.borrow().get(index as usize).cloned().flatten()
    }

    fn set(&self, index: u32, value: Option<Val>) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(index as usize) {
            *slot = value;
        }
    }
}

/// Maximum nesting of calls, statements and expressions at run time.
///
/// Enough for the 247 levels that a recursive macro reaches in Python, and below 2 MiB of stack; without
/// optimization a level takes four times as much.
const MAXIMUM_DEPTH: usize = if cfg!(debug_assertions) { 400 } else { 1200 };

/// The largest string or list, in bytes or items, that one operation may create.
pub(crate) const MAXIMUM_SIZE: usize = 1 << 28;

/// Control flow after a statement.
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
    /// Top-level assignments, visible to blocks.
    exported: FxHashMap<Arc<str>, Val>,
    /// Copies of document values for a template that changes them.
    thawed: FxHashMap<Arc<str>, Val>,
    frame: Rc<Frame>,
    fuel: u64,
    depth: usize,
    pub(crate) autoescape: bool,
    /// State of the generator for `random` and `lipsum`.
    pub(crate) random: u64,
}

impl<'a> Vm<'a> {
    pub(crate) fn render(
        program: &'a Program,
        settings: &'a Settings,
        document: &'a Dict,
        out: &mut String,
    ) -> Result<(), Error> {
        Self::new(program, settings, document).block_body(&program.main, out)
    }

    fn new(program: &'a Program, settings: &'a Settings, document: &'a Dict) -> Self {
        Self {
            settings,
            program,
            document,
            exported: FxHashMap::default(),
            thawed: FxHashMap::default(),
            frame: Frame::of_block(program.variables.frame_size(program.main.function), None),
            fuel: settings.fuel,
            depth: 0,
            autoescape: false,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// The value of a program that is a single expression.
    pub(crate) fn evaluate(
        program: &'a Program,
        settings: &'a Settings,
        document: &'a Dict,
    ) -> Result<Val, Error> {
        let body = &program.main.body;
        let [Statement::Print(expression)] = body.statements.as_slice() else {
            return Err(Error::new(ErrorKind::Unsupported, "A template is not an expression"));
        };
        let mut vm = Self::new(program, settings, document);
        vm.enter(body);
        vm.eval(expression)
    }

    /// Deducts steps from the limit.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Error> {
        match self.fuel.checked_sub(steps) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => Err(Error::limit("The template takes too many steps")),
        }
    }

    /// Fails if an operation would create something too large.
    pub(crate) fn check_size(size: Option<usize>) -> Result<usize, Error> {
        size.filter(|size| *size <= MAXIMUM_SIZE)
            .ok_or_else(|| Error::limit("The template creates a value that is too large"))
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
            return Err(Error::limit("The template recurses too deeply"));
        }
        Ok(())
    }

    /// Runs the statements of a scope.
    fn body(&mut self, body: &Body, out: &mut String) -> Result<Flow, Error> {
        self.enter(body);
        self.statements(&body.statements, out)
    }

    /// Initializes the variables of a scope.
    fn enter(&mut self, body: &Body) {
        let program = self.program;
        for start in &program.variables.scope(body.scope).starts {
            let variable = program.variables.get(start.variable);
            let value = start.from.and_then(|slot| self.read(slot, &variable.name));
            self.frame.set(variable.slot.index, value);
        }
    }

    /// The value of a variable; an empty slot is filled from the document if rule 4 applies.
    fn read(&mut self, slot: VariableSlot, name: &Arc<str>) -> Option<Val> {
        let frame = self.frame.outer(slot.up);
        let value = frame.get(slot.index);
        if value.is_some() || !slot.from_document {
            return value;
        }
        let context = frame.context.clone();
        let value = self.lookup(context.as_deref(), name);
        if value.is_some() {
            self.frame.outer(slot.up).set(slot.index, value.clone());
        }
        value
    }

    fn write(&self, id: VariableId, value: Val) {
        let slot = self.program.variables.get(id).slot;
        self.frame.outer(slot.up).set(slot.index, Some(value));
    }

    /// The value of a name that no scope of the template has.
    fn lookup(&mut self, context: Option<&Context>, name: &Arc<str>) -> Option<Val> {
        if let Some(value) = context.and_then(|context| context.get(name)) {
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

    /// The error for a statement that needs other templates.
    fn unsupported(tag: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("`{tag}` is not supported: there are no other templates"))
    }
}
