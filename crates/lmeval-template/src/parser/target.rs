//! Assignment targets and macro parameters.
//!
//! A target is parsed before its scope is open and before the assigned value is read: in `{% set x = x + 1
//! %}` the right `x` is evaluated first, and the targets of a loop belong to its body and its condition. The
//! parser therefore reads a [`Pattern`], which is plain syntax, and binds it to variables later.

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

/// The statement that binds a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// `{% set %}`.
    Assignment,
    /// A loop, at the start of its scope.
    Loop,
    /// `{% with %}`, at the start of its scope.
    With,
}

impl<'s> Parser<'s> {
    /// Comma-separated names, optionally parenthesized.
    ///
    /// `namespace.attribute` is allowed only if `namespaces` is set.
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

    /// A name that can be assigned.
    pub(super) fn assignable(&mut self) -> Result<&'s str, Error> {
        let span = self.current.span;
        let name = self.word()?;
        if matches!(name, "true" | "True" | "false" | "False" | "none" | "None") {
            return Err(syntax(format!("`{name}` cannot be assigned"), span));
        }
        Ok(name)
    }

    /// Declares the names of a pattern in the current scope.
    pub(super) fn bind(&mut self, pattern: &Pattern<'s>, binding: Binding) -> Result<Target, Error> {
        Ok(match pattern {
            Pattern::Name(name, span) => {
                if *name == "loop" && binding != Binding::With && self.loops > 0 {
                    return Err(syntax("`loop` cannot be assigned inside of a loop", *span));
                }
                self.scopes.hide(name);
                Target::Name(match binding {
                    Binding::Assignment => self.scopes.assign(name),
                    Binding::Loop | Binding::With => self.scopes.parameter(name),
                })
            }
            Pattern::Attribute(name, attribute, span) => Target::Attribute {
                namespace: self.scopes.read(name),
                attribute: self.scopes.intern(attribute),
                span: *span,
            },
            Pattern::Tuple(items) => {
                Target::Tuple(items.iter().map(|item| self.bind(item, binding)).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The parameters of a macro or call block, from `(` to `)`; the function's scope is open.
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
            self.scopes.hide(word);
            let variable = self.scopes.parameter(word);
            let name = self.scopes.intern(word);
            let default = if self.take_symbol(Symbol::Equal)? {
                Some(self.expression(Level::Conditional)?)
            } else {
                None
            };
            let needs_default = parameters.last().is_some_and(|last| last.default.is_some());
            if needs_default && default.is_none() {
                let message = "Parameters without a default must come before those with one";
                return Err(syntax(message, span));
            }
            parameters.push(Parameter { name, variable, default });
        }
        let mut names: Vec<&Arc<str>> = parameters.iter().map(|parameter| &parameter.name).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("The parameter `{name}` is declared twice");
            return Err(syntax(message, start.to(self.end)));
        }
        Ok(parameters)
    }
}
