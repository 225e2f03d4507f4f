//! What an assignment can write to, and what a macro can be called with.
//!
//! A target is read before the scope that it belongs to is open, and before the value that is assigned: in
//! `{% set x = x + 1 %}` the right `x` counts first, and the targets of a loop belong to its body and to its condition.
//! So the parser reads a [`Pattern`], which is plain syntax, and binds it to variables when the time has come.

use std::sync::Arc;

use super::expression::Level;
use super::{Parser, syntax};
use crate::ast::{Parameter, Span, Target};
use crate::error::Error;
use crate::lexer::{Bracket, Symbol, Token};

/// The left side of an assignment.
#[derive(Debug)]
pub(super) enum Pattern<'s> {
    Name(&'s str, Span),
    Attribute(&'s str, &'s str, Span),
    Tuple(Vec<Pattern<'s>>),
}

/// How a pattern is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// By `{% set %}`.
    Assignment,
    /// By a loop, at the start of its scope.
    Loop,
    /// By `{% with %}`, at the start of its scope.
    With,
}

impl<'s> Parser<'s> {
    /// Names with commas between them, perhaps in brackets.
    ///
    /// Only where `namespaces` is set, `namespace.attribute` is one of them.
    pub(super) fn pattern(&mut self, namespaces: bool) -> Result<Pattern<'s>, Error> {
        let first = self.pattern_item(namespaces)?;
        if !self.at_symbol(Symbol::Comma) {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_symbol(Symbol::Comma)? {
            if matches!(self.current.token, Token::CloseTag | Token::Symbol(Symbol::Close(Bracket::Round))) {
                break;
            }
            items.push(self.pattern_item(namespaces)?);
        }
        Ok(Pattern::Tuple(items))
    }

    fn pattern_item(&mut self, namespaces: bool) -> Result<Pattern<'s>, Error> {
        let start = self.current.span;
        if self.take_symbol(Symbol::Open(Bracket::Round))? {
            if self.take_symbol(Symbol::Close(Bracket::Round))? {
                return Ok(Pattern::Tuple(Vec::new()));
            }
            self.deeper(1)?;
            let inner = self.pattern(false)?;
            self.nesting -= 1;
            self.expect_symbol(Symbol::Close(Bracket::Round), "`)`")?;
            return Ok(inner);
        }
        let name = self.assignable()?;
        if namespaces && self.take_symbol(Symbol::Dot)? {
            let attribute = self.word()?;
            return Ok(Pattern::Attribute(name, attribute, start.to(self.end)));
        }
        Ok(Pattern::Name(name, start))
    }

    /// A name that something can be assigned to.
    pub(super) fn assignable(&mut self) -> Result<&'s str, Error> {
        let span = self.current.span;
        let name = self.word()?;
        if matches!(name, "true" | "True" | "false" | "False" | "none" | "None") {
            return Err(syntax(format!("Nothing can be assigned to `{name}`"), span));
        }
        Ok(name)
    }

    /// Declares the names of a pattern in the current scope.
    pub(super) fn bind(&mut self, pattern: &Pattern<'s>, binding: Binding) -> Result<Target, Error> {
        Ok(match pattern {
            Pattern::Name(name, span) => {
                if *name == "loop" && binding != Binding::With && self.loops > 0 {
                    return Err(syntax("Inside of a loop nothing can be assigned to `loop`", *span));
                }
                self.ledger.hide(name);
                Target::Name(match binding {
                    Binding::Assignment => self.ledger.assign(name),
                    Binding::Loop | Binding::With => self.ledger.parameter(name),
                })
            }
            Pattern::Attribute(name, attribute, span) => Target::Attribute {
                namespace: self.ledger.read(name),
                attribute: self.ledger.text(attribute),
                span: *span,
            },
            Pattern::Tuple(items) => {
                Target::Tuple(items.iter().map(|item| self.bind(item, binding)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The parameters of a macro or call block, from `(` to `)`; the scope of the function is open.
    pub(super) fn signature(&mut self) -> Result<Vec<Parameter>, Error> {
        let mut parameters: Vec<Parameter> = Vec::new();
        let start = self.current.span;
        self.expect_symbol(Symbol::Open(Bracket::Round), "`(`")?;
        while !self.take_symbol(Symbol::Close(Bracket::Round))? {
            if !parameters.is_empty() {
                self.expect_symbol(Symbol::Comma, "`,`")?;
            }
            let span = self.current.span;
            let word = self.assignable()?;
            self.ledger.hide(word);
            let variable = self.ledger.parameter(word);
            let name = self.ledger.text(word);
            let default = if self.take_symbol(Symbol::Equal)? {
                Some(self.expression(Level::Conditional)?)
            } else {
                None
            };
            let needs_default = parameters.last().is_some_and(|last| last.default.is_some());
            if needs_default && default.is_none() {
                let message = "A parameter after one with a default value needs one too";
                return Err(syntax(message, span));
            }
            parameters.push(Parameter { name, variable, default });
        }
        let mut names: Vec<&Arc<str>> = parameters.iter().map(|parameter| &parameter.name).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("Two parameters have the name `{name}`");
            return Err(syntax(message, start.to(self.end)));
        }
        Ok(parameters)
    }
}
