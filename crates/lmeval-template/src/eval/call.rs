//! Calls.

use std::rc::Rc;
use std::sync::Arc;

use super::{Frame, Vm};
use crate::arguments::Args;
use crate::ast::{Expr, ExprKind};
use crate::error::Error;
use crate::scope::VariableId;
use crate::value::{MacroObject, Object, OwnDict, UndefinedCause, Val};
use crate::{globals, methods};

impl Vm<'_> {
    /// Evaluates a call expression, with the body of a call block if there is one.
    pub(super) fn eval_call(&mut self, expression: &Expr, caller: Option<Val>) -> Result<Val, Error> {
        let ExprKind::Call { callee, arguments } = &expression.kind else {
            return self.eval(expression);
        };
        let result = if let ExprKind::Attribute { object, name } = &callee.kind {
            let object = self.eval(object)?;
            let hidden = self.settings.chat && (name.starts_with('_') || super::access::is_mutator(name));
            if methods::exists(&object, name) && !hidden {
                let args = self.eval_call_arguments(arguments, caller)?;
                self.call_method(&object, name, args)
            } else {
                let function = self.attribute(&object, name)?;
                let args = self.eval_call_arguments(arguments, caller)?;
                self.call(&function, args)
            }
        } else {
            let function = self.eval(callee)?;
            let args = self.eval_call_arguments(arguments, caller)?;
            self.call(&function, args)
        };
        result.map_err(|error| error.or_at(expression.span.start as usize, expression.span.end as usize))
    }

    fn eval_call_arguments(
        &mut self,
        arguments: &crate::ast::Arguments,
        caller: Option<Val>,
    ) -> Result<Args, Error> {
        let mut args = self.eval_arguments(arguments)?;
        if let Some(caller) = caller {
            args.keywords.push(("caller".into(), caller));
        }
        Ok(args)
    }

    /// Calls a method of a value.
    pub(crate) fn call_method(&mut self, receiver: &Val, name: &str, args: Args) -> Result<Val, Error> {
        self.spend(1)?;
        methods::call(self, receiver, name, args)
    }

    /// Calls a value.
    pub(crate) fn call(&mut self, callee: &Val, args: Args) -> Result<Val, Error> {
        self.spend(1)?;
        let object = match callee {
            Val::Object(object) => object,
            Val::Undefined(undefined) => return Err(undefined.error()),
            _ => return Err(not_callable(callee)),
        };
        match &**object {
            Object::Method { receiver, name } => methods::call(self, receiver, name, args),
            Object::Global(global) => globals::call(self, *global, args),
            Object::Macro(macro_object) => self.call_macro(macro_object, args),
            Object::Loop(state) => self.call_loop(state, args),
            Object::Joiner(joiner) => {
                args.none("joiner")?;
                Ok(if joiner.used.replace(true) { joiner.separator.clone() } else { Val::str("") })
            }
            Object::Block(index) => {
                args.none("block")?;
                self.block_text(*index)
            }
            _ => Err(not_callable(callee)),
        }
    }

    /// Calls a macro: extra arguments go to `varargs` and `kwargs` if its body uses them.
    fn call_macro(&mut self, macro_object: &MacroObject, args: Args) -> Result<Val, Error> {
        let definition = &macro_object.definition;
        let size = self.program.variables.frame_size(definition.function);
        let frame = Frame::inside(macro_object.frame.clone(), size);
        let set = |vm: &Self, variable: VariableId, value: Val| {
            frame.set(vm.program.variables.get(variable).slot.index, Some(value));
        };
        let Args { mut positional, mut keywords } = args;
        let parameters = &definition.parameters;
        let extra = positional.split_off(positional.len().min(parameters.len()));
        for (parameter, value) in parameters.iter().zip(positional.iter()) {
            set(self, parameter.variable, value.clone());
        }
        for parameter in parameters.iter().skip(positional.len()) {
            let position = keywords.iter().position(|(name, _)| *name == parameter.name);
            if let Some(position) = position {
                let (_, value) = keywords.remove(position);
                set(self, parameter.variable, value);
            }
        }
        if let Some(variable) = definition.caller {
            let position = keywords.iter().position(|(name, _)| **name == *"caller");
            let caller = match position {
                Some(position) => keywords.remove(position).1,
                None => self.undefined_message("`caller` is available only inside of a call block"),
            };
            set(self, variable, caller);
        }
        if let Some(variable) = definition.keywords {
            let mut rest = OwnDict::default();
            for (name, value) in keywords {
                rest.insert((&*name).into(), value);
            }
            set(self, variable, Val::dict(rest));
        } else if let Some((name, _)) = keywords.first() {
            return Err(Error::type_error(format!("Macro `{}` has no parameter `{name}`", definition.name)));
        }
        if let Some(variable) = definition.variadic {
            set(self, variable, Val::tuple(extra));
        } else if !extra.is_empty() {
            return Err(Error::type_error(format!(
                "Macro `{}` accepts up to {} arguments",
                definition.name,
                parameters.len()
            )));
        }
        self.run_macro(macro_object, frame)
    }

    fn run_macro(&mut self, macro_object: &MacroObject, frame: Rc<Frame>) -> Result<Val, Error> {
        self.deeper()?;
        let definition: &Arc<crate::ast::Macro> = &macro_object.definition;
        let outer = std::mem::replace(&mut self.frame, frame);
        let autoescape = std::mem::replace(&mut self.autoescape, macro_object.autoescape);
        let mut text = String::new();
        let result = self.macro_text(definition, &mut text);
        self.frame = outer;
        self.autoescape = autoescape;
        self.depth -= 1;
        result?;
        Ok(self.captured(text))
    }

    fn macro_text(&mut self, definition: &crate::ast::Macro, text: &mut String) -> Result<(), Error> {
        // Before the defaults: they read the outer variables even if the body assigns the same names.
        self.enter(&definition.body);
        for parameter in &definition.parameters {
            if self.frame.get(self.program.variables.get(parameter.variable).slot.index).is_some() {
                continue;
            }
            let value = match &parameter.default {
                Some(default) => self.eval(default)?,
                None => self.undefined(UndefinedCause::Variable(parameter.name.clone())),
            };
            self.write(parameter.variable, value);
        }
        self.statements(&definition.body.statements, text).map(|_| ())
    }
}

fn not_callable(value: &Val) -> Error {
    Error::type_error(format!("A value of type `{}` cannot be called", value.type_name()))
}
