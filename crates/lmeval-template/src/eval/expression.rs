//! Expressions.

use std::rc::Rc;
use std::sync::Arc;

use super::Vm;
use crate::arguments::Args;
use crate::ast::{Arguments, CompareOperator, Expr, ExprKind, FilterCall, Slot, TestCall, UnaryOperator};
use crate::error::{Error, ErrorKind};
use crate::operators;
use crate::scope::unknown;
use crate::value::{
    Iter, OwnDict, Undefined, UndefinedCause, Val, compare, contains, equals, escape_html, str_of, write_str,
};

impl Vm<'_> {
    /// Evaluates an expression.
    pub(super) fn eval(&mut self, expression: &Expr) -> Result<Val, Error> {
        match &expression.kind {
            ExprKind::Const(value) => Ok(Val::from(value)),
            ExprKind::Name { name, slot } => Ok(self.variable(name, *slot)),
            _ => {
                self.spend(1)?;
                self.deeper()?;
                let result = self.eval_compound(expression);
                self.depth -= 1;
                result.map_err(|error| {
                    error.or_at(expression.span.start as usize, expression.span.end as usize)
                })
            }
        }
    }

    pub(super) fn variable(&self, name: &Arc<str>, slot: Slot) -> Val {
        match self.frame.get(slot) {
            Some(value) => value,
            None => self.undefined(UndefinedCause::Variable(name.clone())),
        }
    }

    /// Evaluates an operand and fails with its place where the operation does.
    fn eval_truth(&mut self, expression: &Expr) -> Result<bool, Error> {
        let value = self.eval(expression)?;
        value
            .truth()
            .map_err(|error| error.or_at(expression.span.start as usize, expression.span.end as usize))
    }

    fn eval_compound(&mut self, expression: &Expr) -> Result<Val, Error> {
        match &expression.kind {
            ExprKind::Const(value) => Ok(Val::from(value)),
            ExprKind::Name { name, slot } => Ok(self.variable(name, *slot)),
            ExprKind::Tuple(items) => Ok(Val::tuple(self.eval_all(items)?)),
            ExprKind::List(items) => Ok(Val::list(self.eval_all(items)?)),
            ExprKind::Dict(items) => {
                let mut dict = OwnDict::default();
                for (key, value) in items {
                    let key = self.eval(key)?;
                    let value = self.eval(value)?;
                    dict.insert(key.to_key()?, value);
                }
                Ok(Val::dict(dict))
            }
            ExprKind::Conditional { test, then, otherwise } => {
                if self.eval_truth(test)? {
                    return self.eval(then);
                }
                match otherwise {
                    Some(otherwise) => self.eval(otherwise),
                    // Reference: without `else` the result is the lenient undefined, even where undefined is strict.
                    None => Ok(Val::Undefined(Rc::new(Undefined {
                        cause: UndefinedCause::Message(
                            "The condition was false and there is no `else`".into(),
                        ),
                        strict: false,
                    }))),
                }
            }
            ExprKind::Unary(UnaryOperator::Not, operand) => Ok(Val::Bool(!self.eval_truth(operand)?)),
            ExprKind::Unary(operator, operand) => {
                let operand = self.eval(operand)?;
                operators::unary(*operator, &operand)
            }
            ExprKind::Binary(operator, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                operators::binary(self, *operator, &left, &right)
            }
            ExprKind::And(left, right) => {
                let value = self.eval(left)?;
                if value.truth()? { self.eval(right) } else { Ok(value) }
            }
            ExprKind::Or(left, right) => {
                let value = self.eval(left)?;
                if value.truth()? { Ok(value) } else { self.eval(right) }
            }
            ExprKind::Concat(parts) => self.concat(parts),
            ExprKind::Compare { first, rest } => self.comparison(first, rest),
            ExprKind::Attribute { object, name } => {
                let object = self.eval(object)?;
                self.attribute(&object, name)
            }
            ExprKind::Item { object, key } => {
                let object = self.eval(object)?;
                if let ExprKind::Slice(parts) = &key.kind {
                    let parts = self.eval_slice(parts)?;
                    return Self::slice(&object, &parts);
                }
                let key = self.eval(key)?;
                self.item(&object, &key)
            }
            ExprKind::Slice(parts) => {
                let parts = self.eval_slice(parts)?;
                Ok(Val::object(crate::value::Object::Slice(parts)))
            }
            ExprKind::Call { .. } => self.eval_call(expression, None),
            ExprKind::Filter(call) => self.filter(call, None),
            ExprKind::Test(call) => self.test(call),
        }
    }

    fn eval_all(&mut self, expressions: &[Expr]) -> Result<Vec<Val>, Error> {
        expressions.iter().map(|expression| self.eval(expression)).collect()
    }

    fn eval_slice(&mut self, parts: &[Option<Expr>; 3]) -> Result<[Option<Val>; 3], Error> {
        let mut values = [const { None }; 3];
        for (value, part) in values.iter_mut().zip(parts) {
            if let Some(part) = part {
                *value = Some(self.eval(part)?);
            }
        }
        Ok(values)
    }

    fn concat(&mut self, parts: &[Expr]) -> Result<Val, Error> {
        let values = self.eval_all(parts)?;
        if self.autoescape && values.iter().any(|value| matches!(value, Val::Markup(_))) {
            let mut out = String::new();
            for value in &values {
                match value {
                    Val::Markup(text) => out.push_str(text),
                    other => out.push_str(&escape_html(&str_of(other)?)),
                }
            }
            return Ok(Val::Markup(out.into()));
        }
        let mut out = String::new();
        for (value, part) in values.iter().zip(parts) {
            write_str(&mut out, value)
                .map_err(|error| error.or_at(part.span.start as usize, part.span.end as usize))?;
            Self::check_size(Some(out.len()))?;
        }
        Ok(Val::Str(out.into()))
    }

    fn comparison(&mut self, first: &Expr, rest: &[(CompareOperator, Expr)]) -> Result<Val, Error> {
        let mut left = self.eval(first)?;
        for (operator, operand) in rest {
            let right = self.eval(operand)?;
            if !self.compare_values(*operator, &left, &right)? {
                return Ok(Val::Bool(false));
            }
            left = right;
        }
        Ok(Val::Bool(true))
    }

    /// One comparison.
    pub(crate) fn compare_values(
        &mut self,
        operator: CompareOperator,
        left: &Val,
        right: &Val,
    ) -> Result<bool, Error> {
        Ok(match operator {
            CompareOperator::Equal => equals(left, right)?,
            CompareOperator::NotEqual => !equals(left, right)?,
            CompareOperator::In => contains(self, right, left)?,
            CompareOperator::NotIn => !contains(self, right, left)?,
            CompareOperator::Less => compare(left, right)?.is_some_and(std::cmp::Ordering::is_lt),
            CompareOperator::LessEqual => compare(left, right)?.is_some_and(std::cmp::Ordering::is_le),
            CompareOperator::Greater => compare(left, right)?.is_some_and(std::cmp::Ordering::is_gt),
            CompareOperator::GreaterEqual => compare(left, right)?.is_some_and(std::cmp::Ordering::is_ge),
        })
    }

    /// Evaluates the arguments of a call.
    pub(super) fn eval_arguments(&mut self, arguments: &Arguments) -> Result<Args, Error> {
        let mut args = Args::positional(self.eval_all(&arguments.positional)?);
        for (name, value) in &arguments.keywords {
            let value = self.eval(value)?;
            args.keywords.push((name.clone(), value));
        }
        if let Some(star) = &arguments.star {
            let value = self.eval(star)?;
            args.positional.extend(Iter::over(&value)?.collect(self)?);
        }
        if let Some(star_star) = &arguments.star_star {
            let value = self.eval(star_star)?;
            let Val::Dict(dict) = &value else {
                return Err(Error::type_error(format!(
                    "The argument after `**` must be a mapping, not `{}`",
                    value.type_name()
                )));
            };
            for (key, value) in dict.entries() {
                let Some(name) = key.as_text() else {
                    return Err(Error::type_error("Keywords must be text"));
                };
                if args.keywords.iter().any(|(known, _)| known == name) {
                    return Err(Error::type_error(format!("Two values for the keyword `{name}`")));
                }
                args.keywords.push((name.clone(), value));
            }
        }
        Ok(args)
    }

    /// Applies a filter, to its input expression or to a given value at the bottom of a chain.
    fn filter(&mut self, call: &FilterCall, bottom: Option<Val>) -> Result<Val, Error> {
        let input = match (&call.input, bottom) {
            (None, bottom) => bottom.unwrap_or(Val::None),
            (Some(input), None) => self.eval(input)?,
            (Some(input), Some(bottom)) => self.filter_chain(input, bottom)?,
        };
        let args = self.eval_arguments(&call.arguments)?;
        let Some(function) = call.function else {
            return Err(unknown(ErrorKind::UnknownFilter, &call.name, self.settings.chat));
        };
        function(self, &input, args)
    }

    /// Applies the filters of a block, whose innermost takes the block's text.
    pub(super) fn filter_chain(&mut self, expression: &Expr, bottom: Val) -> Result<Val, Error> {
        let ExprKind::Filter(call) = &expression.kind else {
            return Ok(bottom);
        };
        self.filter(call, Some(bottom))
            .map_err(|error| error.or_at(expression.span.start as usize, expression.span.end as usize))
    }

    fn test(&mut self, call: &TestCall) -> Result<Val, Error> {
        let input = self.eval(&call.input)?;
        let args = self.eval_arguments(&call.arguments)?;
        let Some(function) = call.function else {
            return Err(unknown(ErrorKind::UnknownTest, &call.name, self.settings.chat));
        };
        Ok(Val::Bool(function(self, &input, args)?))
    }
}
