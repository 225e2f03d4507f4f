//! Statements.

use std::sync::Arc;

use super::Parser;
use crate::ast::{
    Autoescape, Block, CallBlock, Expr, ExprKind, FilterBlock, For, If, Macro, Parameter, SetBlock, Slot,
    Statement, Target, With,
};
use crate::error::{Error, ErrorKind, nearest};
use crate::lexer::TokenKind;

const TAGS: [&str; 14] = [
    "autoescape",
    "block",
    "call",
    "extends",
    "filter",
    "for",
    "from",
    "if",
    "import",
    "include",
    "macro",
    "print",
    "set",
    "with",
];

impl Parser {
    /// Parses one statement after its `{%`, up to its last `%}`.
    pub(super) fn parse_statement(&mut self, body: &mut Vec<Statement>) -> Result<(), Error> {
        let start = self.start();
        let TokenKind::Name(tag) = self.current().kind.clone() else {
            return self.unexpected("the name of a statement");
        };
        let token = self.advance();
        let statement = match &*tag {
            "for" => self.parse_for(start)?,
            "if" => self.parse_if(start)?,
            "set" => self.parse_set(start)?,
            "macro" => self.parse_macro(start)?,
            "call" => self.parse_call_block(start)?,
            "filter" => self.parse_filter_block(start)?,
            "with" => self.parse_with(start)?,
            "block" => self.parse_block(start)?,
            "autoescape" => self.parse_autoescape(start)?,
            "print" => return self.parse_print(body),
            "extends" => {
                self.parse_expression()?;
                Statement::Unsupported("extends", self.span_from(start))
            }
            "include" => self.parse_include(start)?,
            "import" => self.parse_import(start)?,
            "from" => self.parse_from(start)?,
            "break" | "continue" if self.syntax.loop_controls => {
                if self.loops == 0 {
                    return self.syntax_at(start, format!("`{tag}` stands outside of a loop"));
                }
                if *tag == *"break" { Statement::Break } else { Statement::Continue }
            }
            "generation" if self.syntax.generation => {
                let inner = self.parse_body(&["endgeneration"], start)?;
                self.advance();
                let caller = Arc::new(self.make_macro("caller", start, Vec::new(), inner));
                Statement::CallBlock(Box::new(CallBlock { call: None, caller }))
            }
            _ => {
                let mut error = Error::new(ErrorKind::Syntax, format!("Unknown tag `{tag}`"));
                if let Some(hint) = nearest(&tag, TAGS) {
                    error = error.with_hint(hint);
                }
                return Err(error.or_at(token.start, token.end));
            }
        };
        body.push(statement);
        Ok(())
    }

    fn parse_print(&mut self, body: &mut Vec<Statement>) -> Result<(), Error> {
        let mut first = true;
        while self.current().kind != TokenKind::BlockEnd {
            if !first {
                self.expect_operator(",")?;
            }
            first = false;
            body.push(Statement::Output(self.parse_expression()?));
        }
        Ok(())
    }

    fn parse_for(&mut self, start: usize) -> Result<Statement, Error> {
        let target_start = self.position;
        let target = self.parse_target(false)?;
        let target_end = self.position;
        self.expect_keyword("in")?;
        let iterable = self.parse_tuple(false, false)?;
        let test = if self.skip_name("if") { Some(self.parse_expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        let span = self.span_from(start);
        // The test is a scope of its own, so its target is a tree of its own.
        let test_target = if test.is_some() {
            let after = std::mem::replace(&mut self.position, target_start);
            let copy = self.parse_target(false)?;
            debug_assert_eq!(self.position, target_end, "parsing a target twice ends at the same place");
            self.position = after;
            Some(copy)
        } else {
            None
        };
        self.loops += 1;
        let body = self.parse_body(&["endfor", "else"], start)?;
        self.loops -= 1;
        let otherwise =
            if self.skip_name("else") { self.parse_body(&["endfor"], start)? } else { Vec::new() };
        self.skip_name("endfor");
        Ok(Statement::For(Arc::new(For {
            target,
            iterable,
            test,
            recursive,
            body,
            otherwise,
            test_target,
            test_loads: Vec::new(),
            body_loads: Vec::new(),
            otherwise_loads: Vec::new(),
            loop_slot: None,
            slots: 0,
            span,
        })))
    }

    fn parse_if(&mut self, start: usize) -> Result<Statement, Error> {
        let mut branches = Vec::new();
        loop {
            let test = self.parse_tuple(false, false)?;
            let body = self.parse_body(&["elif", "else", "endif"], start)?;
            branches.push((test, body));
            if !self.skip_name("elif") {
                break;
            }
        }
        let otherwise = if self.skip_name("else") { self.parse_body(&["endif"], start)? } else { Vec::new() };
        self.skip_name("endif");
        Ok(Statement::If(Box::new(If { branches, otherwise })))
    }

    fn parse_set(&mut self, start: usize) -> Result<Statement, Error> {
        let target = self.parse_target(true)?;
        if self.skip_operator("=") {
            let value = self.parse_tuple(true, false)?;
            let span = self.span_from(start);
            return Ok(Statement::Set { target, value, exported: false, span });
        }
        let filter = if self.skip_operator("|") { Some(self.parse_filter_chain()?) } else { None };
        let span = self.span_from(start);
        let body = self.parse_body(&["endset"], start)?;
        self.advance();
        let block = SetBlock { target, filter, body, loads: Vec::new(), exported: false, span };
        Ok(Statement::SetBlock(Box::new(block)))
    }

    /// A name, an attribute of a namespace, or a tuple of them.
    fn parse_target(&mut self, with_namespace: bool) -> Result<Target, Error> {
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
            items.push(self.parse_simple_target(with_namespace)?);
            if !self.is_operator(",") {
                break;
            }
            is_tuple = true;
        }
        if is_tuple {
            return Ok(Target::Tuple(items));
        }
        match items.pop() {
            Some(only) => Ok(only),
            None => self.syntax_at(start, "Expected a name to assign to"),
        }
    }

    fn parse_simple_target(&mut self, with_namespace: bool) -> Result<Target, Error> {
        let start = self.start();
        if with_namespace
            && let (TokenKind::Name(name), TokenKind::Operator(".")) =
                (&self.current().kind, &self.look().kind)
        {
            let name = name.clone();
            self.advance();
            self.advance();
            let attribute = self.expect_name()?;
            let span = self.span_from(start);
            return Ok(Target::Attribute { name, slot: Slot::default(), attribute, span });
        }
        let expression = self.parse_primary()?;
        self.to_target(start, expression)
    }

    fn to_target(&self, start: usize, expression: Expr) -> Result<Target, Error> {
        match expression.kind {
            ExprKind::Name { name, .. } => Ok(Target::Name { name, slot: Slot::default() }),
            ExprKind::Tuple(items) => {
                let items: Result<Vec<Target>, Error> =
                    items.into_iter().map(|item| self.to_target(start, item)).collect();
                Ok(Target::Tuple(items?))
            }
            _ => self.syntax_at(start, "This cannot be assigned to"),
        }
    }

    fn parse_signature(&mut self) -> Result<Vec<Parameter>, Error> {
        self.expect_operator("(")?;
        let mut parameters: Vec<Parameter> = Vec::new();
        while !self.is_operator(")") {
            if !parameters.is_empty() {
                self.expect_operator(",")?;
            }
            let start = self.start();
            let name = self.expect_name()?;
            if is_constant(&name) {
                return self.syntax_at(start, format!("`{name}` cannot be assigned to"));
            }
            if parameters.iter().any(|known| known.name == name) {
                return self.syntax_at(start, format!("Parameter `{name}` is repeated"));
            }
            let default = if self.skip_operator("=") {
                Some(self.parse_expression()?)
            } else if parameters.iter().any(|known| known.default.is_some()) {
                return self.syntax_at(start, "A parameter without default follows one with default");
            } else {
                None
            };
            parameters.push(Parameter { name, slot: Slot::default(), default });
        }
        self.expect_operator(")")?;
        Ok(parameters)
    }

    fn make_macro(
        &self,
        name: &str,
        start: usize,
        parameters: Vec<Parameter>,
        body: Vec<Statement>,
    ) -> Macro {
        Macro {
            name: name.into(),
            parameters,
            body,
            loads: Vec::new(),
            caller: None,
            keywords: None,
            variadic: None,
            slots: 0,
            span: self.span_from(start),
        }
    }

    fn parse_macro(&mut self, start: usize) -> Result<Statement, Error> {
        let name = self.expect_name()?;
        if is_constant(&name) {
            return self.syntax_at(start, format!("`{name}` cannot be assigned to"));
        }
        let parameters = self.parse_signature()?;
        let loops = std::mem::take(&mut self.loops);
        let body = self.parse_body(&["endmacro"], start)?;
        self.loops = loops;
        self.advance();
        let definition = Arc::new(self.make_macro(&name, start, parameters, body));
        Ok(Statement::Macro { definition, slot: Slot::default(), exported: false })
    }

    fn parse_call_block(&mut self, start: usize) -> Result<Statement, Error> {
        let parameters = if self.is_operator("(") { self.parse_signature()? } else { Vec::new() };
        let call = self.parse_expression()?;
        if !matches!(call.kind, ExprKind::Call { .. }) {
            return self.syntax_at(start, "Expected a call");
        }
        let loops = std::mem::take(&mut self.loops);
        let body = self.parse_body(&["endcall"], start)?;
        self.loops = loops;
        self.advance();
        let caller = Arc::new(self.make_macro("caller", start, parameters, body));
        Ok(Statement::CallBlock(Box::new(CallBlock { call: Some(call), caller })))
    }

    fn parse_filter_block(&mut self, start: usize) -> Result<Statement, Error> {
        let filter = self.parse_filter_chain()?;
        let body = self.parse_body(&["endfilter"], start)?;
        self.advance();
        Ok(Statement::FilterBlock(Box::new(FilterBlock { filter, body, loads: Vec::new() })))
    }

    fn parse_with(&mut self, start: usize) -> Result<Statement, Error> {
        let mut bindings = Vec::new();
        while self.current().kind != TokenKind::BlockEnd {
            if !bindings.is_empty() {
                self.expect_operator(",")?;
            }
            let target = self.parse_target(false)?;
            self.expect_operator("=")?;
            bindings.push((target, self.parse_expression()?));
        }
        let body = self.parse_body(&["endwith"], start)?;
        self.advance();
        Ok(Statement::With(Box::new(With { bindings, body, loads: Vec::new() })))
    }

    fn parse_autoescape(&mut self, start: usize) -> Result<Statement, Error> {
        let enabled = self.parse_expression()?;
        let body = self.parse_body(&["endautoescape"], start)?;
        self.advance();
        Ok(Statement::Autoescape(Box::new(Autoescape { enabled, body, loads: Vec::new() })))
    }

    fn parse_block(&mut self, start: usize) -> Result<Statement, Error> {
        let name = self.expect_name()?;
        let scoped = self.skip_name("scoped");
        let required = self.skip_name("required");
        if self.blocks.iter().any(|block| block.name == name) {
            return self.syntax_at(start, format!("Block `{name}` is defined twice"));
        }
        let span = self.span_from(start);
        let index = self.blocks.len();
        self.blocks.push(Block {
            name: name.clone(),
            scoped,
            required,
            body: Vec::new(),
            loads: Vec::new(),
            self_slot: None,
            slots: 0,
            outer: Vec::new(),
        });
        let loops = std::mem::take(&mut self.loops);
        let body = self.parse_body(&["endblock"], start)?;
        self.loops = loops;
        self.advance();
        let is_blank = |statement: &Statement| matches!(statement, Statement::Data(text) if text.chars().all(lmeval_pycompat::strings::is_space));
        if required && !body.iter().all(is_blank) {
            return self.syntax_at(start, "Required blocks can only contain comments or whitespace");
        }
        self.skip_name(&name);
        self.blocks[index].body = body;
        Ok(Statement::Block { index, span })
    }

    fn parse_include(&mut self, start: usize) -> Result<Statement, Error> {
        self.parse_expression()?;
        if self.skip_name("ignore") {
            self.expect_keyword("missing")?;
        }
        self.parse_context_words();
        Ok(Statement::Unsupported("include", self.span_from(start)))
    }

    fn parse_context_words(&mut self) {
        if (self.is_name("with") || self.is_name("without"))
            && matches!(&self.look().kind, TokenKind::Name(next) if **next == *"context")
        {
            self.advance();
            self.advance();
        }
    }

    fn parse_import(&mut self, start: usize) -> Result<Statement, Error> {
        self.parse_expression()?;
        self.expect_keyword("as")?;
        self.expect_name()?;
        self.parse_context_words();
        Ok(Statement::Unsupported("import", self.span_from(start)))
    }

    fn parse_from(&mut self, start: usize) -> Result<Statement, Error> {
        self.parse_expression()?;
        self.expect_keyword("import")?;
        loop {
            self.parse_context_words();
            if self.current().kind == TokenKind::BlockEnd {
                break;
            }
            let name_start = self.start();
            let name = self.expect_name()?;
            if name.starts_with('_') {
                return self.syntax_at(name_start, "Names that start with `_` cannot be imported");
            }
            if self.skip_name("as") {
                self.expect_name()?;
            }
            self.parse_context_words();
            if !self.skip_operator(",") {
                break;
            }
        }
        Ok(Statement::Unsupported("from", self.span_from(start)))
    }
}

fn is_constant(name: &str) -> bool {
    matches!(name, "true" | "false" | "none" | "True" | "False" | "None")
}
