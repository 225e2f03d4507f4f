//! Calls, filters and tests with their arguments.
//!
//! Implements "Filters", "Tests" and "Call" of Jinja's template designer documentation. Filters and tests are
//! looked up here. An unknown one is reported later, because it is allowed inside of a condition, which may
//! follow.

use std::sync::Arc;

use super::expression::Level;
use super::{Parser, syntax};
use crate::ast::{Applied, Arguments, Expr, ExprKind, Span, UnaryOperator};
use crate::error::{Error, ErrorKind};
use crate::filters::{self, FilterFunction};
use crate::lexer::{Bracket, Symbol, Token};
use crate::predicates;

impl Parser<'_> {
    /// The arguments of a call, from `(` to `)`.
    pub(super) fn arguments(&mut self) -> Result<Arguments, Error> {
        let mut arguments = Arguments::default();
        let close = Symbol::Close(Bracket::Round);
        let start = self.current.span;
        self.advance()?;
        let mut is_first = true;
        while !self.take_symbol(close)? {
            if !std::mem::take(&mut is_first) {
                self.expect_symbol(Symbol::Comma, "`,`")?;
                if self.take_symbol(close)? {
                    break;
                }
            }
            self.argument(&mut arguments)?;
        }
        let mut names: Vec<&str> = arguments.keywords.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(syntax(format!("The argument `{name}` is given twice"), start.to(self.end)));
        }
        Ok(arguments)
    }

    fn argument(&mut self, arguments: &mut Arguments) -> Result<(), Error> {
        let start = self.current.span;
        let dynamic = arguments.star.is_some() || arguments.star_star.is_some();
        let misplaced = |parser: &Self| syntax("This argument is not allowed here", start.to(parser.end));
        if self.take_symbol(Symbol::Star)? {
            let value = self.expression(Level::Conditional)?;
            if dynamic {
                return Err(misplaced(self));
            }
            arguments.star = Some(Box::new(value));
        } else if self.take_symbol(Symbol::StarStar)? {
            let value = self.expression(Level::Conditional)?;
            if arguments.star_star.is_some() {
                return Err(misplaced(self));
            }
            arguments.star_star = Some(Box::new(value));
        } else if let Token::Word(name) = self.current.token
            && *self.look_ahead()? == Token::Symbol(Symbol::Equal)
        {
            self.advance()?;
            self.advance()?;
            let name = self.scopes.intern(name);
            let value = self.expression(Level::Conditional)?;
            if arguments.star_star.is_some() {
                return Err(misplaced(self));
            }
            arguments.keywords.push((name, value));
        } else {
            let value = self.expression(Level::Conditional)?;
            if dynamic || !arguments.keywords.is_empty() {
                return Err(misplaced(self));
            }
            arguments.positional.push(value);
        }
        Ok(())
    }

    /// The name of a filter or test, which may contain dots.
    fn dotted_name(&mut self) -> Result<(Arc<str>, Span), Error> {
        let start = self.current.span;
        let first = self.word()?;
        if !self.at_symbol(Symbol::Dot) {
            return Ok((self.scopes.intern(first), start));
        }
        let mut name = first.to_owned();
        while self.take_symbol(Symbol::Dot)? {
            name.push('.');
            name.push_str(self.word()?);
        }
        Ok((name.into(), start.to(self.end)))
    }

    /// Records an unknown filter or test. An unsupported filter is an error anywhere.
    fn note_unknown(&mut self, kind: ErrorKind, name: &Arc<str>, span: Span) {
        if self.scopes.is_conditional() && !is_refused(kind, name) {
            self.unresolved.insert(name.to_string());
        } else {
            self.unknown.push((kind, name.clone(), span));
        }
    }

    /// A filter after its `|`.
    pub(super) fn filter(&mut self) -> Result<Applied<FilterFunction>, Error> {
        let (name, span) = self.dotted_name()?;
        let arguments = if self.at_symbol(Symbol::Open(Bracket::Round)) {
            self.arguments()?
        } else {
            Arguments::default()
        };
        let function = filters::lookup(&name, self.chat);
        if function.is_none() {
            self.note_unknown(ErrorKind::UnknownFilter, &name, span);
        }
        Ok(Applied { name, arguments, function, span })
    }

    /// `is name`, `is not name`, with arguments in parentheses or a single bare one.
    pub(super) fn test(&mut self, input: Expr) -> Result<Expr, Error> {
        self.advance()?;
        let start = input.span;
        let negated = self.take_word("not")?;
        let (name, span) = self.dotted_name()?;
        let mut arguments = Arguments::default();
        match &self.current.token {
            Token::Symbol(Symbol::Open(Bracket::Round)) => arguments = self.arguments()?,
            Token::Word("is") => {
                return Err(syntax(
                    "Tests cannot be chained: `is` must not follow another test directly",
                    self.current.span,
                ));
            }
            Token::Word("else" | "or" | "and") => {}
            Token::Word(_) | Token::Quoted(_) | Token::Number(_) | Token::Symbol(Symbol::Open(_)) => {
                arguments.positional.push(self.expression(Level::Postfix)?);
            }
            _ => {}
        }
        let function = predicates::lookup(&name);
        if function.is_none() {
            self.note_unknown(ErrorKind::UnknownTest, &name, span);
        }
        let test = ExprKind::Test(Box::new((input, Applied { name, arguments, function, span })));
        let test = self.node(test, start)?;
        if negated {
            return self.node(ExprKind::Unary(UnaryOperator::Not, Box::new(test)), start);
        }
        Ok(test)
    }
}

/// Whether this is a filter that is not supported.
pub(super) fn is_refused(kind: ErrorKind, name: &str) -> bool {
    kind == ErrorKind::UnknownFilter && filters::is_unsupported(name)
}
