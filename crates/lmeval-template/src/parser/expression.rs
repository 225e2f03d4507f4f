//! Expressions.

use std::sync::Arc;

use lmeval_pycompat::Value;

use super::Parser;
use crate::ast::{
    Arguments, BinaryOperator, CompareOperator, Expr, ExprKind, FilterCall, TestCall, UnaryOperator,
};
use crate::error::{Error, ErrorKind};
use crate::lexer::TokenKind;
use crate::names;
use crate::program::depth_of;

/// How deep the tree of an expression may be.
const MAXIMUM_TREE_DEPTH: u16 = 250;

impl Parser {
    /// A node from `start` to the last token; fails where the tree would get too deep to be walked.
    fn make(&self, start: usize, kind: ExprKind) -> Result<Expr, Error> {
        let span = self.span_from(start);
        let depth = depth_of(&kind);
        if depth > MAXIMUM_TREE_DEPTH {
            let error = Error::limit("The expression is nested too deeply");
            return Err(error.or_at(span.start as usize, span.end as usize));
        }
        Ok(Expr { kind, span, depth })
    }

    pub(super) fn parse_expression(&mut self) -> Result<Expr, Error> {
        self.nested(Self::parse_conditional)
    }

    fn parse_conditional(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let mut result = self.parse_or()?;
        while self.skip_name("if") {
            let test = self.parse_or()?;
            let otherwise = if self.skip_name("else") {
                Some(Box::new(self.nested(Self::parse_conditional)?))
            } else {
                None
            };
            let kind = ExprKind::Conditional { test: Box::new(test), then: Box::new(result), otherwise };
            result = self.make(start, kind)?;
        }
        Ok(result)
    }

    fn parse_or(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let mut left = self.parse_and()?;
        while self.skip_name("or") {
            let right = self.parse_and()?;
            left = self.make(start, ExprKind::Or(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn parse_and(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let mut left = self.parse_not()?;
        while self.skip_name("and") {
            let right = self.parse_not()?;
            left = self.make(start, ExprKind::And(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn parse_not(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        if self.skip_name("not") {
            let operand = self.nested(Self::parse_not)?;
            return self.make(start, ExprKind::Unary(UnaryOperator::Not, Box::new(operand)));
        }
        self.parse_compare()
    }

    fn parse_compare(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let first = self.parse_sum()?;
        let mut rest = Vec::new();
        loop {
            let operator = match &self.current().kind {
                TokenKind::Operator("==") => CompareOperator::Equal,
                TokenKind::Operator("!=") => CompareOperator::NotEqual,
                TokenKind::Operator("<") => CompareOperator::Less,
                TokenKind::Operator("<=") => CompareOperator::LessEqual,
                TokenKind::Operator(">") => CompareOperator::Greater,
                TokenKind::Operator(">=") => CompareOperator::GreaterEqual,
                TokenKind::Name(name) if **name == *"in" => CompareOperator::In,
                TokenKind::Name(name)
                    if **name == *"not"
                        && matches!(&self.look().kind, TokenKind::Name(next) if **next == *"in") =>
                {
                    self.advance();
                    CompareOperator::NotIn
                }
                _ => break,
            };
            self.advance();
            rest.push((operator, self.parse_sum()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        self.make(start, ExprKind::Compare { first: Box::new(first), rest })
    }

    fn parse_binary(
        &mut self,
        operators: &[(&str, BinaryOperator)],
        operand: fn(&mut Self) -> Result<Expr, Error>,
    ) -> Result<Expr, Error> {
        let start = self.start();
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(text, _)| self.is_operator(text)) {
            self.advance();
            let right = operand(self)?;
            let negated =
                if *operator == BinaryOperator::Power { negative_base(&mut left, &right) } else { false };
            left = self.make(start, ExprKind::Binary(*operator, Box::new(left), Box::new(right)))?;
            if negated {
                left = self.make(start, ExprKind::Unary(UnaryOperator::Negative, Box::new(left)))?;
            }
        }
        Ok(left)
    }

    fn parse_sum(&mut self) -> Result<Expr, Error> {
        self.parse_binary(&[("+", BinaryOperator::Add), ("-", BinaryOperator::Subtract)], Self::parse_concat)
    }

    fn parse_concat(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let first = self.parse_product()?;
        if !self.is_operator("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_operator("~") {
            parts.push(self.parse_product()?);
        }
        self.make(start, ExprKind::Concat(parts))
    }

    fn parse_product(&mut self) -> Result<Expr, Error> {
        let operators = [
            ("*", BinaryOperator::Multiply),
            ("/", BinaryOperator::Divide),
            ("//", BinaryOperator::FloorDivide),
            ("%", BinaryOperator::Modulo),
        ];
        self.parse_binary(&operators, Self::parse_power)
    }

    /// `**` groups to the left and binds less than a sign, other than in Python.
    fn parse_power(&mut self) -> Result<Expr, Error> {
        self.parse_binary(&[("**", BinaryOperator::Power)], |parser| parser.parse_unary(true))
    }

    fn parse_unary(&mut self, with_filter: bool) -> Result<Expr, Error> {
        let start = self.start();
        let node = if self.is_operator("-") || self.is_operator("+") {
            let operator =
                if self.is_operator("-") { UnaryOperator::Negative } else { UnaryOperator::Positive };
            self.advance();
            let operand = self.nested(|parser| parser.parse_unary(false))?;
            self.make(start, ExprKind::Unary(operator, Box::new(operand)))?
        } else {
            self.parse_primary()?
        };
        let node = self.parse_postfix(start, node)?;
        if with_filter { self.parse_filters(start, node) } else { Ok(node) }
    }

    pub(super) fn parse_primary(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        match self.current().kind.clone() {
            TokenKind::Name(name) => {
                self.advance();
                let kind = match &*name {
                    "true" | "True" => ExprKind::Const(Value::Bool(true)),
                    "false" | "False" => ExprKind::Const(Value::Bool(false)),
                    "none" | "None" => ExprKind::Const(Value::None),
                    _ => ExprKind::Name { name, slot: crate::ast::Slot::default() },
                };
                self.make(start, kind)
            }
            TokenKind::Text(mut text) => {
                self.advance();
                while let TokenKind::Text(next) = &self.current().kind {
                    text.push_str(next);
                    self.advance();
                }
                self.make(start, ExprKind::Const(Value::from(text)))
            }
            TokenKind::Number(number) => {
                self.advance();
                self.make(start, ExprKind::Const(number))
            }
            TokenKind::Operator("(") => {
                self.advance();
                let inner = self.parse_tuple(true, true)?;
                self.expect_operator(")")?;
                Ok(inner)
            }
            TokenKind::Operator("[") => {
                self.advance();
                let mut items = Vec::new();
                while !self.is_operator("]") {
                    if !items.is_empty() {
                        self.expect_operator(",")?;
                        if self.is_operator("]") {
                            break;
                        }
                    }
                    items.push(self.parse_expression()?);
                }
                self.expect_operator("]")?;
                self.make(start, ExprKind::List(items))
            }
            TokenKind::Operator("{") => {
                self.advance();
                let mut items = Vec::new();
                while !self.is_operator("}") {
                    if !items.is_empty() {
                        self.expect_operator(",")?;
                        if self.is_operator("}") {
                            break;
                        }
                    }
                    let key = self.parse_expression()?;
                    self.expect_operator(":")?;
                    items.push((key, self.parse_expression()?));
                }
                self.expect_operator("}")?;
                self.make(start, ExprKind::Dict(items))
            }
            _ => self.unexpected("an expression"),
        }
    }

    /// One expression, or several with commas, which make a tuple.
    pub(super) fn parse_tuple(&mut self, with_conditional: bool, parenthesized: bool) -> Result<Expr, Error> {
        let start = self.start();
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect_operator(",")?;
            }
            if self.is_tuple_end() {
                break;
            }
            items.push(if with_conditional {
                self.parse_expression()?
            } else {
                self.nested(Self::parse_or)?
            });
            if !self.is_operator(",") {
                break;
            }
            is_tuple = true;
        }
        if !is_tuple {
            if let Some(only) = items.pop() {
                return Ok(only);
            }
            if !parenthesized {
                return self.unexpected("an expression");
            }
        }
        self.make(start, ExprKind::Tuple(items))
    }

    pub(super) fn is_tuple_end(&self) -> bool {
        matches!(self.current().kind, TokenKind::VariableEnd | TokenKind::BlockEnd | TokenKind::Operator(")"))
    }

    fn parse_postfix(&mut self, start: usize, mut node: Expr) -> Result<Expr, Error> {
        loop {
            node = match self.current().kind {
                TokenKind::Operator("." | "[") => self.parse_subscript(start, node)?,
                TokenKind::Operator("(") => self.parse_call(start, node)?,
                _ => return Ok(node),
            };
        }
    }

    fn parse_filters(&mut self, start: usize, mut node: Expr) -> Result<Expr, Error> {
        loop {
            node = if self.is_operator("|") {
                self.advance();
                self.parse_filter(start, Some(node))?
            } else if self.is_name("is") {
                self.parse_test(start, node)?
            } else if self.is_operator("(") {
                self.parse_call(start, node)?
            } else {
                return Ok(node);
            };
        }
    }

    fn parse_subscript(&mut self, start: usize, node: Expr) -> Result<Expr, Error> {
        let object = Box::new(node);
        if self.skip_operator(".") {
            return match self.current().kind.clone() {
                TokenKind::Name(name) => {
                    self.advance();
                    self.make(start, ExprKind::Attribute { object, name })
                }
                TokenKind::Number(number) if !matches!(number, Value::Float(_)) => {
                    let key_start = self.start();
                    self.advance();
                    let key = Box::new(self.make(key_start, ExprKind::Const(number))?);
                    self.make(start, ExprKind::Item { object, key })
                }
                _ => self.unexpected("a name or a number"),
            };
        }
        self.expect_operator("[")?;
        let key_start = self.start();
        let mut keys = Vec::new();
        while !self.is_operator("]") {
            if !keys.is_empty() {
                self.expect_operator(",")?;
            }
            keys.push(self.parse_subscribed()?);
        }
        self.expect_operator("]")?;
        let key = if keys.len() == 1 { keys.remove(0) } else { self.make(key_start, ExprKind::Tuple(keys))? };
        self.make(start, ExprKind::Item { object, key: Box::new(key) })
    }

    fn parse_subscribed(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let mut parts = [None, None, None];
        if !self.is_operator(":") {
            let node = self.parse_expression()?;
            if !self.is_operator(":") {
                return Ok(node);
            }
            parts[0] = Some(node);
        }
        self.expect_operator(":")?;
        if !self.is_slice_end() && !self.is_operator(":") {
            parts[1] = Some(self.parse_expression()?);
        }
        if self.skip_operator(":") && !self.is_slice_end() {
            parts[2] = Some(self.parse_expression()?);
        }
        self.make(start, ExprKind::Slice(Box::new(parts)))
    }

    fn is_slice_end(&self) -> bool {
        self.is_operator("]") || self.is_operator(",")
    }

    pub(super) fn parse_call(&mut self, start: usize, callee: Expr) -> Result<Expr, Error> {
        let arguments = self.parse_arguments()?;
        self.make(start, ExprKind::Call { callee: Box::new(callee), arguments })
    }

    fn parse_arguments(&mut self) -> Result<Arguments, Error> {
        self.expect_operator("(")?;
        let mut arguments = Arguments::default();
        let mut first = true;
        while !self.is_operator(")") {
            if !first {
                self.expect_operator(",")?;
                if self.is_operator(")") {
                    break;
                }
            }
            first = false;
            self.parse_argument(&mut arguments)?;
        }
        self.expect_operator(")")?;
        Ok(arguments)
    }

    fn parse_argument(&mut self, arguments: &mut Arguments) -> Result<(), Error> {
        let invalid = "Invalid order of arguments in a call";
        if self.is_operator("*") {
            if arguments.star.is_some() || arguments.star_star.is_some() {
                return self.fail(invalid);
            }
            self.advance();
            arguments.star = Some(Box::new(self.parse_expression()?));
        } else if self.is_operator("**") {
            if arguments.star_star.is_some() {
                return self.fail(invalid);
            }
            self.advance();
            arguments.star_star = Some(Box::new(self.parse_expression()?));
        } else if let (TokenKind::Name(name), TokenKind::Operator("=")) =
            (&self.current().kind, &self.look().kind)
        {
            let name = name.clone();
            if arguments.star_star.is_some() {
                return self.fail(invalid);
            }
            if arguments.keywords.iter().any(|(known, _)| *known == name) {
                return self.fail(format!("Keyword argument `{name}` is repeated"));
            }
            self.advance();
            self.advance();
            let value = self.parse_expression()?;
            arguments.keywords.push((name, value));
        } else {
            if arguments.star.is_some() || arguments.star_star.is_some() || !arguments.keywords.is_empty() {
                return self.fail(invalid);
            }
            arguments.positional.push(self.parse_expression()?);
        }
        Ok(())
    }

    fn dotted_name(&mut self) -> Result<Arc<str>, Error> {
        let mut name = self.expect_name()?;
        while self.skip_operator(".") {
            name = format!("{name}.{}", self.expect_name()?).into();
        }
        Ok(name)
    }

    /// One filter, after its `|`.
    pub(super) fn parse_filter(&mut self, start: usize, input: Option<Expr>) -> Result<Expr, Error> {
        let name_start = self.start();
        let name = self.dotted_name()?;
        let span = self.span_from(name_start);
        let arguments = if self.is_operator("(") { self.parse_arguments()? } else { Arguments::default() };
        let call = FilterCall { input, name, arguments, function: None, span };
        self.make(start, ExprKind::Filter(Box::new(call)))
    }

    /// Filters in a row, for filter blocks and block assignments: the innermost has no input.
    pub(super) fn parse_filter_chain(&mut self) -> Result<Expr, Error> {
        let start = self.start();
        let mut filter = self.parse_filter(start, None)?;
        while self.skip_operator("|") {
            filter = self.parse_filter(start, Some(filter))?;
        }
        Ok(filter)
    }

    fn parse_test(&mut self, start: usize, input: Expr) -> Result<Expr, Error> {
        self.advance();
        let negated = self.skip_name("not");
        let name_start = self.start();
        let name = self.dotted_name()?;
        let name_end = self.span_from(name_start).end;
        let mut arguments = Arguments::default();
        if self.is_operator("(") {
            arguments = self.parse_arguments()?;
        } else {
            let takes_argument = match &self.current().kind {
                TokenKind::Name(name) => !matches!(&**name, "else" | "or" | "and"),
                TokenKind::Text(_) | TokenKind::Number(_) | TokenKind::Operator("(" | "[" | "{") => true,
                _ => false,
            };
            if takes_argument {
                if self.is_name("is") {
                    return self.fail("Tests with `is` cannot be chained");
                }
                let argument_start = self.start();
                let argument = self.parse_primary()?;
                arguments.positional.push(self.parse_postfix(argument_start, argument)?);
            }
        }
        let call = TestCall { input, name, arguments, function: None };
        let mut test = self.make(start, ExprKind::Test(Box::new(call)))?;
        // The range of a test is where a wrong name would be shown.
        test.span.end = test.span.end.max(name_end);
        if negated {
            test = self.make(start, ExprKind::Unary(UnaryOperator::Not, Box::new(test)))?;
        }
        Ok(test)
    }

    pub(super) fn syntax_at<T>(&self, start: usize, message: impl Into<String>) -> Result<T, Error> {
        let span = self.span_from(start);
        Err(Error::new(ErrorKind::Syntax, message).or_at(span.start as usize, span.end as usize))
    }
}

/// Takes the sign from a negative constant that is raised to a power only known at run time.
///
/// Reference: constants are folded into literals of Python, where the sign binds less than the power: `-2 ** n` is
/// `-(2 ** n)`, although `-2 ** 2` is `4`.
fn negative_base(base: &mut Expr, exponent: &Expr) -> bool {
    let mut negative = false;
    let mut inner = &*base;
    while let ExprKind::Unary(operator @ (UnaryOperator::Negative | UnaryOperator::Positive), operand) =
        &inner.kind
    {
        negative ^= *operator == UnaryOperator::Negative;
        inner = operand;
    }
    let ExprKind::Const(number) = &inner.kind else {
        return false;
    };
    let number = match number {
        Value::Bool(truth) => Value::Int(i64::from(*truth)),
        other => other.clone(),
    };
    let positive = number.to_f64().is_some_and(|number| number > 0.0);
    if !negative || !positive || is_constant(exponent) {
        return false;
    }
    base.kind = ExprKind::Const(number);
    true
}

/// Whether an expression has the same value in every rendering.
fn is_constant(expression: &Expr) -> bool {
    let mut has_call = false;
    let no_names = names::visit_expression(expression, &mut |_| false);
    let mut pending = vec![expression];
    while let Some(current) = pending.pop() {
        match &current.kind {
            ExprKind::Call { .. } => has_call = true,
            ExprKind::Unary(_, operand) => pending.push(operand),
            ExprKind::Binary(_, left, right) => pending.extend([&**left, &**right]),
            _ => {}
        }
    }
    no_names && !has_call
}
