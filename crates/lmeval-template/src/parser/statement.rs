//! Statements: one function per tag.
//!
//! Implements "List of Control Structures" of Jinja's template designer documentation. Each function starts
//! after the tag's name and ends before the `%}` of its last tag. The order in which a statement opens scopes
//! and binds targets determines what names mean; see [`crate::scope`].

use std::sync::Arc;

use super::expression::Level;
use super::target::{Binding, Pattern};
use super::{Parser, syntax};
use crate::ast::{
    Applied, Block, Body, CallBlock, Capture, ExprKind, For, Macro, Parameter, Span, Statement, With,
};
use crate::error::Error;
use crate::filters::FilterFunction;
use crate::lexer::{Bracket, Symbol, Token};
use crate::scope::{FunctionId, ScopeId, Special};

impl<'s> Parser<'s> {
    /// Parses the statement whose `{%` is at `open`.
    pub(super) fn statement(&mut self, open: Span, out: &mut Vec<Statement>) -> Result<(), Error> {
        let Token::Word(word) = self.current.token else {
            return Err(self.expected("the name of a statement"));
        };
        let tag = open.to(self.current.span);
        self.advance()?;
        out.push(match word {
            "for" => self.for_loop(tag)?,
            "if" => self.condition(tag)?,
            "set" => self.set(tag)?,
            "macro" => self.macro_definition(tag)?,
            "call" => self.call_block(tag)?,
            "filter" => self.filter_block(tag)?,
            "with" => self.with(tag)?,
            "block" => self.block(tag)?,
            "autoescape" => self.autoescape(tag)?,
            "print" => return self.print(out),
            "include" => self.include(tag)?,
            "import" => self.import(tag)?,
            "from" => self.from(tag)?,
            "extends" => {
                if !self.scopes.exports() {
                    return Err(syntax("`extends` is allowed only at the top level of a template", tag));
                }
                self.expression(Level::Conditional)?;
                Statement::Unsupported("extends", tag)
            }
            "break" | "continue" if self.syntax.loop_controls => {
                if !self.in_loop {
                    return Err(syntax(format!("`{word}` is outside of a loop"), tag));
                }
                if word == "break" { Statement::Break } else { Statement::Continue }
            }
            "generation" if self.syntax.generation => {
                let caller = self.function_body("caller".into(), "endgeneration", tag, false)?;
                Statement::CallBlock(Box::new(CallBlock { call: None, caller }))
            }
            _ => return Err(Self::no_such_tag(word, tag)),
        });
        Ok(())
    }

    fn no_such_tag(word: &str, tag: Span) -> Error {
        let error = syntax(format!("`{word}` is not a statement here"), tag);
        match word {
            "else" | "elif" => error.with_hint(format!("`{word}` belongs to an `if` or `for` that is open")),
            _ if word.starts_with("end") => {
                error.with_hint(format!("`{word}` does not match an open statement"))
            }
            _ => error,
        }
    }

    /// Parses with another value of `in_loop`.
    fn looping<T>(
        &mut self,
        in_loop: bool,
        parse: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let before = std::mem::replace(&mut self.in_loop, in_loop);
        let result = parse(self);
        self.in_loop = before;
        result
    }

    fn for_loop(&mut self, tag: Span) -> Result<Statement, Error> {
        self.loops += 1;
        let pattern = self.pattern(false)?;
        self.expect_word("in")?;
        let iterable = self.tuple(Level::Or, Some("recursive"))?;
        let mut test = None;
        let mut test_scope = None;
        if self.take_word("if")? {
            test_scope = Some(self.scopes.open());
            let target = self.bind(&pattern, Binding::Loop)?;
            test = Some((target, self.expression(Level::Conditional)?));
            self.scopes.close();
        }
        let recursive =
            if self.take_word("recursive")? { Some(self.scopes.make_function(test_scope)) } else { None };
        let in_loop_around = self.in_loop;
        let scope = self.open_loop_scope(recursive);
        let target = self.bind(&pattern, Binding::Loop)?;
        self.scopes.watch();
        let statements = self.looping(true, |parser| parser.body(&["endfor", "else"], tag))?;
        let watched = self.scopes.end_watch();
        let loop_variable = self.scopes.declare(watched, Special::Loop);
        self.scopes.close();
        let body = Body { scope, statements };
        let otherwise = match self.advance()? {
            Token::Word("else") => {
                let scope = self.open_loop_scope(recursive);
                // A recursive loop is a function, which a `break` in its `else` cannot leave.
                let in_loop = in_loop_around && recursive.is_none();
                let statements = self.looping(in_loop, |parser| parser.whole_body("endfor", tag))?;
                self.scopes.close();
                Some(Body { scope, statements })
            }
            _ => None,
        };
        self.loops -= 1;
        Ok(Statement::For(Arc::new(For {
            target,
            iterable,
            test,
            body,
            otherwise,
            loop_variable,
            recursive,
        })))
    }

    fn open_loop_scope(&mut self, recursive: Option<FunctionId>) -> ScopeId {
        match recursive {
            Some(function) => self.scopes.open_in(function),
            None => self.scopes.open(),
        }
    }

    fn condition(&mut self, tag: Span) -> Result<Statement, Error> {
        self.scopes.condition(true);
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let test = self.tuple(Level::Or, None)?;
            branches.push((test, self.body(&["elif", "else", "endif"], tag)?));
            match self.advance()? {
                Token::Word("elif") => {}
                Token::Word("else") => {
                    otherwise = self.whole_body("endif", tag)?;
                    break;
                }
                _ => break,
            }
        }
        self.scopes.condition(false);
        Ok(Statement::If(branches, otherwise))
    }

    fn set(&mut self, tag: Span) -> Result<Statement, Error> {
        let exported = self.scopes.exports();
        let pattern = self.pattern(true)?;
        if self.take_symbol(Symbol::Equal)? {
            let value = self.tuple(Level::Conditional, None)?;
            let target = self.bind(&pattern, Binding::Assignment)?;
            return Ok(Statement::Set { target, value, exported, span: tag.to(self.end) });
        }
        let scope = self.scopes.open();
        let filters = self.filters()?;
        let statements = self.whole_body("endset", tag)?;
        self.scopes.close();
        let target = Some(self.bind(&pattern, Binding::Assignment)?);
        let body = Body { scope, statements };
        Ok(Statement::Capture(Box::new(Capture { body, filters, target, exported, span: tag })))
    }

    /// Filters, each after a `|`.
    fn filters(&mut self) -> Result<Vec<Applied<FilterFunction>>, Error> {
        let mut filters = Vec::new();
        while self.take_symbol(Symbol::Pipe)? {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn filter_block(&mut self, tag: Span) -> Result<Statement, Error> {
        let scope = self.scopes.open();
        // The arguments are evaluated in the block's scope, after its body, but count as reads outside of it
        // too.
        self.scopes.set_echo(true);
        let mut filters = vec![self.filter()?];
        filters.extend(self.filters()?);
        self.scopes.set_echo(false);
        let span = tag.to(self.end);
        let statements = self.whole_body("endfilter", tag)?;
        self.scopes.close();
        let body = Body { scope, statements };
        Ok(Statement::Capture(Box::new(Capture { body, filters, target: None, exported: false, span })))
    }

    fn with(&mut self, tag: Span) -> Result<Statement, Error> {
        let mut patterns: Vec<(Pattern<'s>, _)> = Vec::new();
        while self.current.token != Token::CloseTag {
            if !patterns.is_empty() {
                self.expect_symbol(Symbol::Comma, "`,`")?;
            }
            let pattern = self.pattern(false)?;
            self.expect_symbol(Symbol::Equal, "`=`")?;
            patterns.push((pattern, self.expression(Level::Conditional)?));
        }
        let scope = self.scopes.open();
        let mut bindings = Vec::with_capacity(patterns.len());
        for (pattern, value) in patterns {
            bindings.push((self.bind(&pattern, Binding::With)?, value));
        }
        let statements = self.whole_body("endwith", tag)?;
        self.scopes.close();
        Ok(Statement::With(Box::new(With { bindings, body: Body { scope, statements } })))
    }

    fn autoescape(&mut self, tag: Span) -> Result<Statement, Error> {
        let scope = self.scopes.open();
        let enabled = self.expression(Level::Conditional)?;
        let statements = self.whole_body("endautoescape", tag)?;
        self.scopes.close();
        Ok(Statement::Autoescape { enabled, body: Body { scope, statements } })
    }

    fn macro_definition(&mut self, tag: Span) -> Result<Statement, Error> {
        let word = self.assignable()?;
        let exported = self.scopes.exports();
        let variable = self.scopes.assign(word);
        let name = self.scopes.intern(word);
        let definition = self.function_body(name, "endmacro", tag, true)?;
        Ok(Statement::Macro { definition, variable, exported })
    }

    fn call_block(&mut self, tag: Span) -> Result<Statement, Error> {
        // The parameters come before the call, but belong to a scope opened after it.
        let (scope, function) = self.scopes.open_function();
        let has_signature = self.at_symbol(Symbol::Open(Bracket::Round));
        let parameters = if has_signature { self.signature()? } else { Vec::new() };
        self.scopes.close();
        let call = self.expression(Level::Conditional)?;
        if !matches!(call.kind, ExprKind::Call { .. }) {
            return Err(syntax("A call block needs a call, such as `{% call name() %}`", call.span));
        }
        self.scopes.reopen(scope);
        let caller = self.finish_function("caller".into(), scope, function, parameters, "endcall", tag)?;
        Ok(Statement::CallBlock(Box::new(CallBlock { call: Some(call), caller })))
    }

    /// Parses a function from its parameters, or from its body if it has none.
    fn function_body(
        &mut self,
        name: Arc<str>,
        end: &str,
        tag: Span,
        signed: bool,
    ) -> Result<Arc<Macro>, Error> {
        let (scope, function) = self.scopes.open_function();
        let parameters = if signed { self.signature()? } else { Vec::new() };
        self.finish_function(name, scope, function, parameters, end, tag)
    }

    /// Parses the body of a function whose scope is open, and its end.
    fn finish_function(
        &mut self,
        name: Arc<str>,
        scope: ScopeId,
        function: FunctionId,
        parameters: Vec<Parameter>,
        end: &str,
        tag: Span,
    ) -> Result<Arc<Macro>, Error> {
        self.scopes.watch();
        let statements = self.looping(false, |parser| parser.whole_body(end, tag))?;
        let watched = self.scopes.end_watch();
        let mut special = |special: Special| {
            let parameter = parameters.iter().find(|parameter| *parameter.name == *special.name());
            match parameter {
                // Otherwise the caller could not be told from the argument.
                Some(parameter)
                    if special == Special::Caller && watched.saw(special) && parameter.default.is_none() =>
                {
                    Err(syntax("The parameter `caller` needs a default value", tag))
                }
                Some(_) => Ok(None),
                None => Ok(self.scopes.declare(watched, special)),
            }
        };
        let caller = special(Special::Caller)?;
        let keywords = special(Special::Keywords)?;
        let variadic = special(Special::Variadic)?;
        self.scopes.close();
        let body = Body { scope, statements };
        Ok(Arc::new(Macro { name, parameters, body, function, caller, keywords, variadic }))
    }

    fn block(&mut self, tag: Span) -> Result<Statement, Error> {
        let word = self.word()?;
        let name = self.scopes.intern(word);
        let scoped = self.take_word("scoped")?;
        let required = self.take_word("required")?;
        if !self.block_names.insert(word) {
            return Err(syntax(format!("The block `{name}` is defined more than once"), tag.to(self.end)));
        }
        if scoped {
            self.scopes.notice(Special::Loop);
        }
        let around = scoped.then(|| self.scopes.current());
        // The slot is reserved before inner blocks are parsed.
        let index = self.blocks.len();
        let span = tag.to(self.end);
        let (scope, function, suspended) = self.scopes.open_root();
        let body = Body { scope, statements: Vec::new() };
        self.blocks.push(Block { name, required, body, function, self_variable: None, around });
        self.scopes.watch();
        let statements = self.looping(false, |parser| parser.whole_body("endblock", tag))?;
        let watched = self.scopes.end_watch();
        let is_space =
            |statement: &Statement| matches!(statement, Statement::Text(text) if text.trim().is_empty());
        if required && !statements.iter().all(is_space) {
            return Err(syntax("A required block may contain only whitespace and comments", span));
        }
        self.take_word(word)?;
        let self_variable = self.scopes.declare(watched, Special::Itself);
        self.scopes.declare(watched, Special::Super);
        self.scopes.close_root(suspended);
        if let Some(block) = self.blocks.get_mut(index) {
            block.body.statements = statements;
            block.self_variable = self_variable;
        }
        Ok(Statement::Block { index, span })
    }

    fn print(&mut self, out: &mut Vec<Statement>) -> Result<(), Error> {
        let mut is_first = true;
        while self.current.token != Token::CloseTag {
            if !std::mem::take(&mut is_first) {
                self.expect_symbol(Symbol::Comma, "`,`")?;
            }
            out.push(Statement::Print(self.expression(Level::Conditional)?));
        }
        Ok(())
    }

    fn include(&mut self, tag: Span) -> Result<Statement, Error> {
        self.expression(Level::Conditional)?;
        if self.at_word("ignore") && *self.look_ahead()? == Token::Word("missing") {
            self.advance()?;
            self.advance()?;
        }
        self.context()?;
        Ok(Statement::Unsupported("include", tag))
    }

    fn import(&mut self, tag: Span) -> Result<Statement, Error> {
        self.expression(Level::Conditional)?;
        self.expect_word("as")?;
        let name = self.assignable()?;
        self.scopes.assign(name);
        self.context()?;
        Ok(Statement::Unsupported("import", tag))
    }

    fn from(&mut self, tag: Span) -> Result<Statement, Error> {
        self.expression(Level::Conditional)?;
        self.expect_word("import")?;
        let mut is_first = true;
        while !self.context()? {
            if !std::mem::take(&mut is_first) {
                if self.current.token == Token::CloseTag {
                    break;
                }
                self.expect_symbol(Symbol::Comma, "`,`")?;
            }
            let span = self.current.span;
            let name = self.assignable()?;
            if name.starts_with('_') {
                return Err(syntax("`_…` names are private and cannot be imported", span));
            }
            let name = if self.take_word("as")? { self.assignable()? } else { name };
            self.scopes.assign(name);
        }
        Ok(Statement::Unsupported("from", tag))
    }

    /// An optional `with context` or `without context`.
    fn context(&mut self) -> Result<bool, Error> {
        let found = (self.at_word("with") || self.at_word("without"))
            && *self.look_ahead()? == Token::Word("context");
        if found {
            self.advance()?;
            self.advance()?;
        }
        Ok(found)
    }
}
