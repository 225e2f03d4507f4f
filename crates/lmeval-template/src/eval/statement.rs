//! Statements.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Flow, Frame, Vm};
use crate::arguments::Args;
use crate::ast::{Block, CallBlock, FilterBlock, SetBlock, Span, Statement, Target};
use crate::error::{Error, ErrorKind};
use crate::value::{Iter, MacroObject, Object, Val, escape_html, str_of, write_str};

fn at(error: Error, span: Span) -> Error {
    error.or_at(span.start as usize, span.end as usize)
}

impl Vm<'_> {
    pub(super) fn statements(&mut self, statements: &[Statement], out: &mut String) -> Result<Flow, Error> {
        self.deeper()?;
        for statement in statements {
            let flow = self.statement(statement, out)?;
            if flow != Flow::Next {
                self.depth -= 1;
                return Ok(flow);
            }
        }
        self.depth -= 1;
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement, out: &mut String) -> Result<Flow, Error> {
        self.spend(1)?;
        match statement {
            Statement::Data(text) => {
                Self::grow(out, text.len())?;
                out.push_str(text);
            }
            Statement::Output(expression) => {
                let value = self.eval(expression)?;
                self.output(out, &value).map_err(|error| at(error, expression.span))?;
            }
            Statement::For(node) => self.for_loop(node, out)?,
            Statement::If(node) => {
                for (test, body) in &node.branches {
                    let value = self.eval(test)?;
                    if value.truth().map_err(|error| at(error, test.span))? {
                        return self.statements(body, out);
                    }
                }
                return self.statements(&node.otherwise, out);
            }
            Statement::Set { target, value, exported, span } => {
                let value = self.eval(value)?;
                self.assign(target, value, *exported).map_err(|error| at(error, *span))?;
            }
            Statement::SetBlock(node) => self.set_block(node)?,
            Statement::Macro { definition, slot, exported } => {
                let value = Val::object(Object::Macro(MacroObject {
                    definition: definition.clone(),
                    frame: self.frame.clone(),
                    autoescape: self.autoescape,
                }));
                if *exported {
                    self.export(&definition.name, &value);
                }
                self.frame.set(*slot, Some(value));
            }
            Statement::CallBlock(node) => self.call_block(node, out)?,
            Statement::FilterBlock(node) => self.filter_block(node, out)?,
            Statement::With(node) => {
                // All values are of the scope around; they are evaluated before any name is set.
                let mut values = Vec::with_capacity(node.bindings.len());
                for (_, value) in &node.bindings {
                    values.push(self.eval(value)?);
                }
                self.enter_scope(&node.loads);
                for ((target, expression), value) in node.bindings.iter().zip(values) {
                    self.assign(target, value, false).map_err(|error| at(error, expression.span))?;
                }
                return self.statements(&node.body, out);
            }
            Statement::Block { index, span } => {
                self.block(*index, out).map_err(|error| at(error, *span))?;
            }
            Statement::Autoescape(node) => {
                let enabled = self.eval(&node.enabled)?;
                let enabled = enabled.truth().map_err(|error| at(error, node.enabled.span))?;
                self.enter_scope(&node.loads);
                let before = std::mem::replace(&mut self.autoescape, enabled);
                let flow = self.statements(&node.body, out);
                self.autoescape = before;
                return flow;
            }
            Statement::Unsupported(tag, span) => return Err(at(Self::unsupported(tag), *span)),
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn grow(out: &str, by: usize) -> Result<(), Error> {
        Self::check_size(out.len().checked_add(by)).map(|_| ())
    }

    /// Appends a value's text, escaped where that is switched on.
    fn output(&mut self, out: &mut String, value: &Val) -> Result<(), Error> {
        if self.autoescape && !matches!(value, Val::Markup(_)) {
            out.push_str(&escape_html(&str_of(value)?));
            return Ok(());
        }
        if let Some(text) = value.as_text() {
            Self::grow(out, text.len())?;
        }
        write_str(out, value)
    }

    /// Appends what a call or filter block made, which must be text.
    fn append(out: &mut String, value: &Val) -> Result<(), Error> {
        match value {
            Val::Str(text) | Val::Markup(text) => {
                out.push_str(text);
                Ok(())
            }
            Val::Undefined(undefined) => Err(undefined.error()),
            other => Err(Error::type_error(format!("The block must make text, not `{}`", other.type_name()))),
        }
    }

    /// Sets the names of a target.
    pub(super) fn assign(&mut self, target: &Target, value: Val, export: bool) -> Result<(), Error> {
        match target {
            Target::Name { name, slot } => {
                if export {
                    self.export(name, &value);
                }
                self.frame.set(*slot, Some(value));
                Ok(())
            }
            Target::Attribute { name, slot, attribute, span } => {
                let object = self.variable(name, *slot);
                let Val::Object(object) = &object else {
                    return Err(at(not_a_namespace(name), *span));
                };
                let Object::Namespace(entries) = &**object else {
                    return Err(at(not_a_namespace(name), *span));
                };
                entries.borrow_mut().insert(attribute.clone().as_ref().into(), value);
                Ok(())
            }
            Target::Tuple(targets) => {
                let mut items = Iter::over(&value)?;
                let mut values = Vec::with_capacity(targets.len());
                while values.len() <= targets.len() {
                    match items.next(self)? {
                        Some(item) => values.push(item),
                        None => break,
                    }
                }
                if values.len() != targets.len() {
                    let count =
                        if values.len() > targets.len() { "more".into() } else { values.len().to_string() };
                    let message = format!("Expected {} values to unpack, there are {count}", targets.len());
                    return Err(Error::value_error(message));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value, export)?;
                }
                Ok(())
            }
        }
    }

    fn set_block(&mut self, node: &SetBlock) -> Result<(), Error> {
        self.enter_scope(&node.loads);
        let mut text = String::new();
        self.statements(&node.body, &mut text)?;
        let mut value = self.captured(text);
        if let Some(filter) = &node.filter {
            value = self.filter_chain(filter, value)?;
        }
        self.assign(&node.target, value, node.exported).map_err(|error| at(error, node.span))
    }

    /// Captured output: safe where escaping is on, as it has been escaped already.
    pub(super) fn captured(&self, text: String) -> Val {
        if self.autoescape { Val::Markup(text.into()) } else { Val::Str(text.into()) }
    }

    fn call_block(&mut self, node: &CallBlock, out: &mut String) -> Result<(), Error> {
        let caller = Val::object(Object::Macro(MacroObject {
            definition: node.caller.clone(),
            frame: self.frame.clone(),
            autoescape: self.autoescape,
        }));
        let Some(call) = &node.call else {
            let value = self.call(&caller, Args::default())?;
            return Self::append(out, &value);
        };
        let value = self.eval_call(call, Some(caller))?;
        Self::append(out, &value).map_err(|error| at(error, call.span))
    }

    fn filter_block(&mut self, node: &FilterBlock, out: &mut String) -> Result<(), Error> {
        self.enter_scope(&node.loads);
        let mut text = String::new();
        self.statements(&node.body, &mut text)?;
        let input = self.captured(text);
        let value = self.filter_chain(&node.filter, input)?;
        Self::append(out, &value).map_err(|error| at(error, node.filter.span))
    }

    /// Runs a block where it stands.
    fn block(&mut self, index: usize, out: &mut String) -> Result<(), Error> {
        let program = self.program;
        let Some(block) = program.resolved.blocks.get(index) else {
            return Ok(());
        };
        if block.required {
            let message = format!("Required block `{}` is not defined", block.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut scope: FxHashMap<Arc<str>, Val> = self.scoped.last().cloned().unwrap_or_default();
        if block.scoped {
            for (name, slot) in &block.outer {
                if let Some(value) = self.frame.get(*slot) {
                    scope.insert(name.clone(), value);
                }
            }
        }
        self.run_block(block, scope, out)
    }

    /// Runs a block that `self` was asked for.
    pub(super) fn block_text(&mut self, index: usize) -> Result<Val, Error> {
        let program = self.program;
        let mut text = String::new();
        if let Some(block) = program.resolved.blocks.get(index) {
            let scope = self.scoped.last().cloned().unwrap_or_default();
            self.run_block(block, scope, &mut text)?;
        }
        Ok(self.captured(text))
    }

    fn run_block(
        &mut self,
        block: &Block,
        scope: FxHashMap<Arc<str>, Val>,
        out: &mut String,
    ) -> Result<(), Error> {
        self.deeper()?;
        self.scoped.push(scope);
        let frame = Frame::new(block.slots, None);
        let outer = std::mem::replace(&mut self.frame, Rc::clone(&frame));
        if let Some(slot) = block.self_slot {
            self.frame.set(slot, Some(Val::object(Object::Template)));
        }
        self.enter_scope(&block.loads);
        let result = self.statements(&block.body, out);
        self.frame = outer;
        self.scoped.pop();
        self.depth -= 1;
        result.map(|_| ())
    }
}

fn not_a_namespace(name: &str) -> Error {
    Error::type_error(format!("Attributes can only be assigned on a namespace, and `{name}` is none"))
}
