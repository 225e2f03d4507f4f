//! Statements.

use std::rc::Rc;

use super::{Context, Flow, Frame, Vm};
use crate::arguments::Args;
use crate::ast::{Block, CallBlock, Capture, Span, Statement, Target};
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
            Statement::Text(text) => {
                Self::grow(out, text.len())?;
                out.push_str(text);
            }
            Statement::Print(expression) => {
                let value = self.eval(expression)?;
                self.output(out, &value).map_err(|error| at(error, expression.span))?;
            }
            Statement::For(node) => return self.for_loop(node, out),
            Statement::If(branches, otherwise) => {
                for (test, body) in branches {
                    let value = self.eval(test)?;
                    if value.truth().map_err(|error| at(error, test.span))? {
                        return self.statements(body, out);
                    }
                }
                return self.statements(otherwise, out);
            }
            Statement::Set { target, value, exported, span } => {
                let value = self.eval(value)?;
                self.assign(target, value, *exported).map_err(|error| at(error, *span))?;
            }
            Statement::Capture(node) => return self.capture(node, out),
            Statement::Macro { definition, variable, exported } => {
                let value = Val::object(Object::Macro(MacroObject {
                    definition: definition.clone(),
                    frame: self.frame.clone(),
                    autoescape: self.autoescape,
                }));
                if *exported {
                    self.export(&definition.name, &value);
                }
                self.write(*variable, value);
            }
            Statement::CallBlock(node) => self.call_block(node, out)?,
            Statement::With(node) => {
                // All values are evaluated in the outer scope, before any name is set.
                let mut values = Vec::with_capacity(node.bindings.len());
                for (_, value) in &node.bindings {
                    values.push(self.eval(value)?);
                }
                for ((target, expression), value) in node.bindings.iter().zip(values) {
                    self.assign(target, value, false).map_err(|error| at(error, expression.span))?;
                }
                return self.body(&node.body, out);
            }
            Statement::Block { index, span } => {
                self.block(*index, out).map_err(|error| at(error, *span))?;
            }
            Statement::Autoescape { enabled, body } => {
                let value = self.eval(enabled)?;
                let value = value.truth().map_err(|error| at(error, enabled.span))?;
                let before = std::mem::replace(&mut self.autoescape, value);
                let flow = self.body(body, out);
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

    /// Appends a value's string form, escaped if autoescape is on.
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

    /// Appends the result of a call or filter block, which must be a string.
    fn append(out: &mut String, value: &Val) -> Result<(), Error> {
        match value {
            Val::Str(text) | Val::Markup(text) => {
                out.push_str(text);
                Ok(())
            }
            Val::Undefined(undefined) => Err(undefined.error()),
            other => Err(Error::type_error(format!(
                "The block must produce a string, not `{}`",
                other.type_name()
            ))),
        }
    }

    /// Assigns to a target.
    pub(super) fn assign(&mut self, target: &Target, value: Val, export: bool) -> Result<(), Error> {
        match target {
            Target::Name(id) => {
                if export {
                    let program = self.program;
                    self.export(&program.variables.get(*id).name, &value);
                }
                self.write(*id, value);
                Ok(())
            }
            Target::Attribute { namespace, attribute, span } => {
                let object = self.variable(*namespace);
                let name = &self.program.variables.get(*namespace).name;
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
                    let message =
                        format!("The target has {} names, but the value has {count} items", targets.len());
                    return Err(Error::value_error(message));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value, export)?;
                }
                Ok(())
            }
        }
    }

    fn capture(&mut self, node: &Capture, out: &mut String) -> Result<Flow, Error> {
        let mut text = String::new();
        let flow = self.body(&node.body, &mut text)?;
        if flow != Flow::Next {
            // Reference: output of a body that leaves the enclosing loop is lost.
            return Ok(flow);
        }
        let mut value = self.captured(text);
        for filter in &node.filters {
            value = self.nested(|vm| vm.filter(filter, &value)).map_err(|error| at(error, filter.span))?;
        }
        match &node.target {
            Some(target) => self.assign(target, value, node.exported),
            None => Self::append(out, &value),
        }
        .map_err(|error| at(error, node.span))?;
        Ok(Flow::Next)
    }

    /// Captured output; marked safe if autoescape is on, since it is already escaped.
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

    /// Runs a block in its position.
    fn block(&mut self, index: usize, out: &mut String) -> Result<(), Error> {
        let program = self.program;
        let Some(block) = program.blocks.get(index) else {
            return Ok(());
        };
        if block.required {
            let message = format!("The required block `{}` is not defined", block.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let context = self.context_of(block)?;
        self.run_block(block, context, out)
    }

    /// The variables that a block sees besides the exported ones: those of its scopes if it is `scoped`, else
    /// those of the enclosing block.
    fn context_of(&mut self, block: &Block) -> Result<Option<Rc<Context>>, Error> {
        let around = self.frame.context.clone();
        let Some(innermost) = block.around else { return Ok(around) };
        let variables = &self.program.variables;
        let depth = variables.scope(innermost).depth;
        let mut context = Context::default();
        let mut next = Some(innermost);
        while let Some(id) = next {
            let scope = variables.scope(id);
            self.spend(scope.assigned.len() as u64)?;
            for variable in &scope.assigned {
                let variable = variables.get(*variable);
                if !context.contains_key(&variable.name)
                    && let Some(value) = self.frame.outer(depth - scope.depth).get(variable.slot.index)
                {
                    context.insert(variable.name.clone(), value);
                }
            }
            next = scope.around;
        }
        if let Some(around) = around {
            for (name, value) in &*around {
                context.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Ok(Some(Rc::new(context)))
    }

    /// Renders a block for `self.name()`.
    pub(super) fn block_text(&mut self, index: usize) -> Result<Val, Error> {
        let program = self.program;
        let mut text = String::new();
        if let Some(block) = program.blocks.get(index) {
            let context = self.frame.context.clone();
            self.run_block(block, context, &mut text)?;
        }
        Ok(self.captured(text))
    }

    fn run_block(
        &mut self,
        block: &Block,
        context: Option<Rc<Context>>,
        out: &mut String,
    ) -> Result<(), Error> {
        self.deeper()?;
        let frame = Frame::of_block(self.program.variables.frame_size(block.function), context);
        let outer = std::mem::replace(&mut self.frame, frame);
        let result = self.block_body(block, out);
        self.frame = outer;
        self.depth -= 1;
        result
    }

    /// Runs the template or a block in its new frame.
    pub(super) fn block_body(&mut self, block: &Block, out: &mut String) -> Result<(), Error> {
        if let Some(variable) = block.self_variable {
            self.write(variable, Val::object(Object::Template));
        }
        self.body(&block.body, out).map(|_| ())
    }
}

fn not_a_namespace(name: &str) -> Error {
    Error::type_error(format!("Attributes can only be assigned on a namespace, and `{name}` is not one"))
}
