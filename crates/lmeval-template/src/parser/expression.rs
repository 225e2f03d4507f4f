//! Expressions, by precedence climbing.
//!
//! Every operator has a [`Level`], and [`infix`] is the only table of them ("Expressions" in Jinja's template
//! designer documentation). To parse an expression at a level, read an operand; then, while the next token is
//! an operator of that level or a tighter one, read its right side at the next tighter level and combine the
//! two. Operators of one level are therefore left-associative, and precedence is just the order of the
//! levels.
//!
//! Three things differ from Python, all visible in the table: signs bind tighter than `**` (`-2 ** 2` is 4),
//! `~` is between sums and products (`2 * 3 ~ 4` is `64`), and filters and tests are looser than a sign
//! (`-1|abs` is 1) but tighter than any other operator. A filter cannot be followed by an attribute or an
//! item, which bind tighter than the filter itself; a call can follow.

use lmeval_pycompat::Value;

use super::Parser;
use super::applied::is_refused;
use crate::ast::{BinaryOperator, CompareOperator, Expr, ExprKind, UnaryOperator};
use crate::error::Error;
use crate::lexer::{Bracket, Symbol, Token};

/// Binding strength of operators, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Conditional,
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Concatenation,
    Product,
    Power,
    Filter,
    Sign,
    Postfix,
    /// Tighter than any operator: a bare operand.
    Operand,
}

/// An operator after an operand.
#[derive(Clone, Copy, Debug)]
enum Infix {
    Conditional,
    Logical(bool),
    Compare(CompareOperator),
    Binary(BinaryOperator),
    Concat,
    Filter,
    Test,
    Attribute,
    Item,
    Call,
}

/// The operators that may follow an operand.
fn infix(token: &Token<'_>) -> Option<(Level, Infix)> {
    use {BinaryOperator as Arithmetic, CompareOperator as Order};
    Some(match token {
        Token::Word(word) => match *word {
            "if" => (Level::Conditional, Infix::Conditional),
            "or" => (Level::Or, Infix::Logical(false)),
            "and" => (Level::And, Infix::Logical(true)),
            "in" => (Level::Comparison, Infix::Compare(Order::In)),
            // If followed by `in`.
            "not" => (Level::Comparison, Infix::Compare(Order::NotIn)),
            "is" => (Level::Filter, Infix::Test),
            _ => return None,
        },
        Token::Symbol(symbol) => match symbol {
            Symbol::EqualEqual => (Level::Comparison, Infix::Compare(Order::Equal)),
            Symbol::BangEqual => (Level::Comparison, Infix::Compare(Order::NotEqual)),
            Symbol::Less => (Level::Comparison, Infix::Compare(Order::Less)),
            Symbol::LessEqual => (Level::Comparison, Infix::Compare(Order::LessEqual)),
            Symbol::Greater => (Level::Comparison, Infix::Compare(Order::Greater)),
            Symbol::GreaterEqual => (Level::Comparison, Infix::Compare(Order::GreaterEqual)),
            Symbol::Plus => (Level::Sum, Infix::Binary(Arithmetic::Add)),
            Symbol::Minus => (Level::Sum, Infix::Binary(Arithmetic::Subtract)),
            Symbol::Tilde => (Level::Concatenation, Infix::Concat),
            Symbol::Star => (Level::Product, Infix::Binary(Arithmetic::Multiply)),
            Symbol::Slash => (Level::Product, Infix::Binary(Arithmetic::Divide)),
            Symbol::SlashSlash => (Level::Product, Infix::Binary(Arithmetic::FloorDivide)),
            Symbol::Percent => (Level::Product, Infix::Binary(Arithmetic::Modulo)),
            Symbol::StarStar => (Level::Power, Infix::Binary(Arithmetic::Power)),
            Symbol::Pipe => (Level::Filter, Infix::Filter),
            Symbol::Dot => (Level::Postfix, Infix::Attribute),
            Symbol::Open(Bracket::Square) => (Level::Postfix, Infix::Item),
            Symbol::Open(Bracket::Round) => (Level::Postfix, Infix::Call),
            _ => return None,
        },
        _ => return None,
    })
}

impl Level {
    /// The level of the right side of an operator.
    fn tighter(self) -> Self {
        match self {
            Self::Conditional => Self::Or,
            Self::Or => Self::And,
            Self::And => Self::Not,
            Self::Not => Self::Comparison,
            Self::Comparison => Self::Sum,
            Self::Sum => Self::Concatenation,
            Self::Concatenation => Self::Product,
            Self::Product => Self::Power,
            Self::Power => Self::Filter,
            Self::Filter => Self::Sign,
            Self::Sign => Self::Postfix,
            Self::Postfix | Self::Operand => Self::Operand,
        }
    }
}

impl Parser<'_> {
    /// An expression of operators that bind at least as tightly as `level`.
    pub(super) fn expression(&mut self, level: Level) -> Result<Expr, Error> {
        self.deeper(1)?;
        let start = self.current.span;
        let unknown = self.unknown.len();
        let (mut left, mut bound) = self.operand(level)?;
        while let Some((mut next, operator)) = infix(&self.current.token) {
            if matches!(operator, Infix::Call) && bound == Level::Filter {
                next = Level::Filter;
            }
            if next < level || next > bound {
                break;
            }
            if matches!(operator, Infix::Compare(CompareOperator::NotIn))
                && *self.look_ahead()? != Token::Word("in")
            {
                break;
            }
            left = self.operation(left, next, operator)?;
            left.span.start = start.start;
            bound = next;
            if next == Level::Conditional {
                // Nothing inside of a condition has to be reached.
                let may_wait = self.unknown.extract_if(unknown.., |(kind, name, _)| !is_refused(*kind, name));
                self.unresolved.extend(may_wait.map(|(_, name, _)| name.to_string()));
            }
        }
        self.nesting -= 1;
        Ok(left)
    }

    /// Combines an operand with the operator that follows it.
    fn operation(&mut self, left: Expr, level: Level, operator: Infix) -> Result<Expr, Error> {
        match operator {
            Infix::Conditional => self.conditional(left),
            Infix::Logical(_) | Infix::Binary(_) => self.binary(left, level, operator),
            Infix::Compare(_) => self.comparison(left),
            Infix::Concat => self.concatenation(left),
            Infix::Filter => self.filtered(left),
            Infix::Test => self.test(left),
            Infix::Attribute => self.attribute(left),
            Infix::Item => self.item(left),
            Infix::Call => self.call(left),
        }
    }

    fn binary(&mut self, left: Expr, level: Level, operator: Infix) -> Result<Expr, Error> {
        self.advance()?;
        let start = left.span;
        let (left, right) = (Box::new(left), Box::new(self.expression(level.tighter())?));
        let kind = match operator {
            // Reference: a constant is written into Python source, where `-2 ** x` is `-(2 ** x)`.
            Infix::Binary(BinaryOperator::Power) if left.is_constant() && !right.is_constant() => {
                ExprKind::ConstantPower(left, right)
            }
            Infix::Binary(operator) => ExprKind::Binary(operator, left, right),
            _ => ExprKind::Logical(matches!(operator, Infix::Logical(true)), left, right),
        };
        self.node(kind, start)
    }

    fn concatenation(&mut self, first: Expr) -> Result<Expr, Error> {
        let start = first.span;
        let mut parts = vec![first];
        while self.take_symbol(Symbol::Tilde)? {
            parts.push(self.expression(Level::Concatenation.tighter())?);
        }
        self.node(ExprKind::Concat(parts), start)
    }

    fn call(&mut self, callee: Expr) -> Result<Expr, Error> {
        let start = callee.span;
        let arguments = self.arguments()?;
        self.node(ExprKind::Call { callee: Box::new(callee), arguments }, start)
    }

    fn filtered(&mut self, input: Expr) -> Result<Expr, Error> {
        self.advance()?;
        let start = input.span;
        let filter = self.filter()?;
        self.node(ExprKind::Filter(Box::new((input, filter))), start)
    }

    /// An operand with its prefix operators, and the level of the result.
    fn operand(&mut self, level: Level) -> Result<(Expr, Level), Error> {
        let (operator, bound) = match self.current.token {
            Token::Symbol(Symbol::Minus) => (UnaryOperator::Negative, Level::Sign),
            Token::Symbol(Symbol::Plus) => (UnaryOperator::Positive, Level::Sign),
            // At levels tighter than `not`, the word is a name.
            Token::Word("not") if level <= Level::Not => (UnaryOperator::Not, Level::Not),
            Token::Symbol(Symbol::Open(bracket)) => return Ok((self.bracketed(bracket)?, Level::Operand)),
            _ => return Ok((self.single()?, Level::Operand)),
        };
        let start = self.current.span;
        self.advance()?;
        let operand = self.expression(bound)?;
        let kind = ExprKind::Unary(operator, Box::new(operand));
        Ok((self.node(kind, start)?, bound))
    }

    /// A name, number or string.
    fn single(&mut self) -> Result<Expr, Error> {
        let start = self.current.span;
        let kind = match self.current.token {
            Token::Word("true" | "True") => ExprKind::Literal(Value::Bool(true)),
            Token::Word("false" | "False") => ExprKind::Literal(Value::Bool(false)),
            Token::Word("none" | "None") => ExprKind::Literal(Value::None),
            Token::Word(word) => ExprKind::Variable(self.scopes.read(word)),
            Token::Number(ref number) => ExprKind::Literal(number.clone()),
            Token::Quoted(_) => return self.quoted(),
            _ => return Err(self.expected("a value")),
        };
        self.advance()?;
        self.node(kind, start)
    }

    /// Adjacent string literals, which are concatenated.
    fn quoted(&mut self) -> Result<Expr, Error> {
        let start = self.current.span;
        let mut whole = String::new();
        while let Token::Quoted(text) = &self.current.token {
            whole.push_str(text);
            self.advance()?;
        }
        self.node(ExprKind::Literal(Value::from(whole)), start)
    }

    /// A list, a dictionary, a tuple, or a parenthesized expression.
    fn bracketed(&mut self, bracket: Bracket) -> Result<Expr, Error> {
        let start = self.current.span;
        self.advance()?;
        let kind = match bracket {
            Bracket::Square => {
                ExprKind::List(self.items(bracket, |parser| parser.expression(Level::Conditional))?)
            }
            Bracket::Curly => ExprKind::Dict(self.items(bracket, Self::pair)?),
            Bracket::Round => {
                let inner = self.tuple_or_nothing(Level::Conditional, None)?;
                self.expect_symbol(Symbol::Close(Bracket::Round), "`)`")?;
                match inner {
                    Some(inner) => return Ok(inner),
                    None => ExprKind::Tuple(Vec::new()),
                }
            }
        };
        self.node(kind, start)
    }

    /// One expression, or a tuple of several separated by commas.
    ///
    /// The word `stop` ends it.
    pub(super) fn tuple(&mut self, level: Level, stop: Option<&str>) -> Result<Expr, Error> {
        match self.tuple_or_nothing(level, stop)? {
            Some(expression) => Ok(expression),
            None => Err(self.expected("a value")),
        }
    }

    fn tuple_or_nothing(&mut self, level: Level, stop: Option<&str>) -> Result<Option<Expr>, Error> {
        let start = self.current.span;
        if self.ends_tuple(stop) {
            return Ok(None);
        }
        let first = self.expression(level)?;
        if !self.at_symbol(Symbol::Comma) {
            return Ok(Some(first));
        }
        let mut items = vec![first];
        while self.take_symbol(Symbol::Comma)? && !self.ends_tuple(stop) {
            items.push(self.expression(level)?);
        }
        self.node(ExprKind::Tuple(items), start).map(Some)
    }

    fn ends_tuple(&self, stop: Option<&str>) -> bool {
        match self.current.token {
            Token::ClosePrint | Token::CloseTag | Token::Symbol(Symbol::Close(Bracket::Round)) => true,
            Token::Word(word) => stop == Some(word),
            _ => false,
        }
    }

    /// Comma-separated items up to a closing bracket.
    fn items<T>(
        &mut self,
        bracket: Bracket,
        item: impl Fn(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        while !self.take_symbol(Symbol::Close(bracket))? {
            if !items.is_empty() {
                self.expect_symbol(Symbol::Comma, "`,`")?;
                if self.take_symbol(Symbol::Close(bracket))? {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn pair(&mut self) -> Result<(Expr, Expr), Error> {
        let key = self.expression(Level::Conditional)?;
        self.expect_symbol(Symbol::Colon, "`:`")?;
        Ok((key, self.expression(Level::Conditional)?))
    }

    /// `then if test else otherwise`.
    fn conditional(&mut self, then: Expr) -> Result<Expr, Error> {
        self.advance()?;
        let start = then.span;
        let test = Box::new(self.expression(Level::Or)?);
        let otherwise =
            if self.take_word("else")? { Some(Box::new(self.expression(Level::Conditional)?)) } else { None };
        self.node(ExprKind::Conditional { test, then: Box::new(then), otherwise }, start)
    }

    /// A chain of comparisons, `a < b < c`.
    fn comparison(&mut self, first: Expr) -> Result<Expr, Error> {
        let start = first.span;
        let mut rest = Vec::new();
        while let Some((_, Infix::Compare(operator))) = infix(&self.current.token) {
            if operator == CompareOperator::NotIn {
                if *self.look_ahead()? != Token::Word("in") {
                    break;
                }
                self.advance()?;
            }
            self.advance()?;
            rest.push((operator, self.expression(Level::Comparison.tighter())?));
        }
        self.node(ExprKind::Compare { first: Box::new(first), rest }, start)
    }

    /// `.name`, or `.0` for an item.
    fn attribute(&mut self, object: Expr) -> Result<Expr, Error> {
        self.advance()?;
        let start = object.span;
        let object = Box::new(object);
        let kind = match &self.current.token {
            Token::Word(name) => ExprKind::Attribute { object, name: self.scopes.intern(name) },
            Token::Number(number) if !matches!(number, Value::Float(_)) => {
                let kind = ExprKind::Literal(number.clone());
                let key = Box::new(Expr { kind, span: self.current.span, height: 1 });
                ExprKind::Item { object, key }
            }
            _ => return Err(self.expected("a name or a number")),
        };
        self.advance()?;
        self.node(kind, start)
    }

    /// `[key]` or `[start:stop:step]`.
    fn item(&mut self, object: Expr) -> Result<Expr, Error> {
        self.advance()?;
        let whole = object.span;
        let object = Box::new(object);
        let close = Symbol::Close(Bracket::Square);
        let start = self.current.span;
        let mut keys = Vec::new();
        if !self.at_symbol(Symbol::Colon) && !self.at_symbol(close) {
            keys.push(self.expression(Level::Conditional)?);
        }
        if self.at_symbol(Symbol::Colon) {
            let mut bounds = [keys.pop(), None, None];
            for bound in &mut bounds[1..] {
                if !self.take_symbol(Symbol::Colon)? {
                    break;
                }
                if !self.at_symbol(Symbol::Colon) && !self.at_symbol(close) {
                    *bound = Some(self.expression(Level::Conditional)?);
                }
            }
            self.expect_symbol(close, "`]`")?;
            return self.node(ExprKind::Slice { object, bounds: Box::new(bounds) }, whole);
        }
        while self.take_symbol(Symbol::Comma)? {
            keys.push(self.expression(Level::Conditional)?);
        }
        let key = match keys.pop() {
            Some(key) if keys.is_empty() => key,
            last => {
                keys.extend(last);
                self.node(ExprKind::Tuple(keys), start)?
            }
        };
        self.expect_symbol(close, "`]`")?;
        self.node(ExprKind::Item { object, key: Box::new(key) }, whole)
    }
}
