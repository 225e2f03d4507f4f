//! Expressions.

use std::rc::Rc;

use super::Vm;
use crate::arguments::Args;
use crate::ast::{Applied, Arguments, BinaryOperator, CompareOperator, Expr, ExprKind, UnaryOperator};
use crate::error::{Error, ErrorKind, unknown_name};
use crate::filters::FilterFunction;
use crate::operators;
use crate::predicates::TestFunction;
use crate::scope::VariableId;
use crate::value::{
    Iter, OwnDict, Undefined, UndefinedCause, Val, compare, contains, equals, escape_html, str_of, write_str,
};

impl Vm<'_> {
    /// Evaluates an expression.
    pub(super) fn eval(&mut self, expression: &Expr) -> Result<Val, Error> {
        match &expression.kind {
            ExprKind::Literal(value) => Ok(Val::from(value)),
            ExprKind::Variable(id) => Ok(self.variable(*id)),
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

    pub(super) fn variable(&mut self, id: VariableId) -> Val {
        let variable = self.program.variables.get(id);
        match self.read(variable.slot, &variable.name) {
            Some(value) => value,
            None => self.undefined(UndefinedCause::Variable(variable.name.clone())),
        }
    }

    /// Evaluates the truth of an expression; failures point at the expression.
    fn eval_truth(&mut self, expression: &Expr) -> Result<bool, Error> {
        let value = self.eval(expression)?;
        value
            .truth()
            .map_err(|error| error.or_at(expression.span.start as usize, expression.span.end as usize))
    }

    fn eval_compound(&mut self, expression: &Expr) -> Result<Val, Error> {
        match &expression.kind {
            ExprKind::Literal(value) => Ok(Val::from(value)),
            ExprKind::Variable(id) => Ok(self.variable(*id)),
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
                    // Reference: without `else` the result is the lenient undefined, even if undefined values
                    // are strict.
                    None => Ok(Val::Undefined(Rc::new(Undefined {
                        cause: UndefinedCause::Message(
                            "This `if` expression has no `else`, and its condition is false".into(),
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
            ExprKind::ConstantPower(left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                let is_negative = match &left {
                    Val::Int(number) => *number < 0,
                    Val::Float(number) => number.is_sign_negative(),
                    Val::Big(number) => number.sign() == num_bigint::Sign::Minus,
                    _ => false,
                };
                if !is_negative {
                    return operators::binary(self, BinaryOperator::Power, &left, &right);
                }
                let positive = operators::unary(UnaryOperator::Negative, &left)?;
                let power = operators::binary(self, BinaryOperator::Power, &positive, &right)?;
                operators::unary(UnaryOperator::Negative, &power)
            }
            ExprKind::Logical(is_and, left, right) => {
                let value = self.eval(left)?;
                if value.truth()? == *is_and { self.eval(right) } else { Ok(value) }
            }
            ExprKind::Concat(parts) => self.concat(parts),
            ExprKind::Compare { first, rest } => self.comparison(first, rest),
            ExprKind::Attribute { object, name } => {
                let object = self.eval(object)?;
                self.attribute(&object, name)
            }
            ExprKind::Item { object, key } => {
                let object = self.eval(object)?;
                let key = self.eval(key)?;
                self.item(&object, &key)
            }
            ExprKind::Slice { object, bounds } => {
                let object = self.eval(object)?;
                let bounds = self.eval_bounds(bounds)?;
                Self::slice(&object, &bounds)
            }
            ExprKind::Call { .. } => self.eval_call(expression, None),
            ExprKind::Filter(applied) => {
                let input = self.eval(&applied.0)?;
                self.filter(&applied.1, &input)
            }
            ExprKind::Test(applied) => {
                let input = self.eval(&applied.0)?;
                self.test(&applied.1, &input)
            }
        }
    }

    fn eval_all(&mut self, expressions: &[Expr]) -> Result<Vec<Val>, Error> {
        expressions.iter().map(|expression| self.eval(expression)).collect()
    }

    fn eval_bounds(&mut self, parts: &[Option<Expr>; 3]) -> Result<[Option<Val>; 3], Error> {
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

    /// Evaluates call arguments.
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
            if let Val::Undefined(undefined) = &value {
                return Err(undefined.error());
            }
            let Val::Dict(dict) = &value else {
                return Err(Error::type_error(format!("`**` unpacks mappings, not `{}`", value.type_name())));
            };
            for (key, value) in dict.entries() {
                let Some(name) = key.as_text() else {
                    return Err(Error::type_error("`**` needs string keys"));
                };
                if args.keywords.iter().any(|(known, _)| known == name) {
                    return Err(Error::type_error(format!("The keyword `{name}` is passed twice")));
                }
                args.keywords.push((name.clone(), value));
            }
        }
        Ok(args)
    }

    pub(super) fn filter(&mut self, filter: &Applied<FilterFunction>, input: &Val) -> Result<Val, Error> {
        let args = self.eval_arguments(&filter.arguments)?;
        let Some(function) = filter.function else {
            return Err(unknown_name(ErrorKind::UnknownFilter, &filter.name, self.settings.chat));
        };
        function(self, input, args)
    }

    fn test(&mut self, test: &Applied<TestFunction>, input: &Val) -> Result<Val, Error> {
        let args = self.eval_arguments(&test.arguments)?;
        let Some(function) = test.function else {
            return Err(unknown_name(ErrorKind::UnknownTest, &test.name, self.settings.chat));
        };
        Ok(Val::Bool(function(self, input, args)?))
    }
}
