//! From tokens to the tree: the token stream and data.

mod expression;
mod statement;

use std::sync::Arc;

use crate::ast::{Block, Span, Statement};
use crate::error::{Error, ErrorKind};
use crate::lexer::{Token, TokenKind, Whitespace, tokenize};

/// Which statements a dialect of the language has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Syntax {
    pub(crate) whitespace: Whitespace,
    pub(crate) loop_controls: bool,
    /// `{% generation %}` blocks, which mark what an assistant says.
    pub(crate) generation: bool,
}

/// The statements of a template and its blocks.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) body: Vec<Statement>,
    pub(crate) blocks: Vec<Block>,
}

/// How deep expressions and statements may be nested, so that no input exhausts the stack.
const MAXIMUM_DEPTH: usize = 60;

/// Parses a template whose line ends are normalised.
pub(crate) fn parse(source: &str, syntax: Syntax) -> Result<Parsed, Error> {
    let tokens = tokenize(source, syntax.whitespace)?;
    let mut parser = Parser { tokens, position: 0, syntax, blocks: Vec::new(), depth: 0, loops: 0 };
    let body = parser.subparse(&[])?;
    let blocks = std::mem::take(&mut parser.blocks);
    Ok(Parsed { body, blocks })
}

struct Parser {
    tokens: Vec<Token>,
    position: usize,
    syntax: Syntax,
    blocks: Vec<Block>,
    depth: usize,
    /// Loops around the current statement, for `break` and `continue`.
    loops: usize,
}

impl Parser {
    fn current(&self) -> &Token {
        &self.tokens[self.position]
    }

    fn look(&self) -> &Token {
        &self.tokens[(self.position + 1).min(self.tokens.len() - 1)]
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.position].clone();
        if self.position + 1 < self.tokens.len() {
            self.position += 1;
        }
        token
    }

    fn start(&self) -> usize {
        self.current().start
    }

    /// From `start` to the end of the last token taken.
    fn span_from(&self, start: usize) -> Span {
        let end = self.tokens[self.position.saturating_sub(1)].end.max(start);
        Span { start: start as u32, end: end as u32 }
    }

    fn is_operator(&self, operator: &str) -> bool {
        matches!(&self.current().kind, TokenKind::Operator(current) if *current == operator)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(&self.current().kind, TokenKind::Name(current) if **current == *name)
    }

    fn skip_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(operator);
        if found {
            self.advance();
        }
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.advance();
        }
        found
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        let token = self.current();
        Err(Error::new(ErrorKind::Syntax, message).or_at(token.start, token.end))
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, Error> {
        if self.current().kind == TokenKind::End {
            return self.fail(format!("Unexpected end of template, expected {expected}"));
        }
        self.fail(format!("Unexpected {}, expected {expected}", describe(&self.current().kind)))
    }

    fn expect_operator(&mut self, operator: &str) -> Result<(), Error> {
        if self.skip_operator(operator) {
            return Ok(());
        }
        self.unexpected(&format!("`{operator}`"))
    }

    fn expect_name(&mut self) -> Result<Arc<str>, Error> {
        if let TokenKind::Name(name) = &self.current().kind {
            let name = name.clone();
            self.advance();
            return Ok(name);
        }
        self.unexpected("a name")
    }

    fn expect_keyword(&mut self, keyword: &str) -> Result<(), Error> {
        if self.skip_name(keyword) {
            return Ok(());
        }
        self.unexpected(&format!("`{keyword}`"))
    }

    fn expect_block_end(&mut self) -> Result<(), Error> {
        if self.current().kind == TokenKind::BlockEnd {
            self.advance();
            return Ok(());
        }
        self.unexpected("the end of the statement")
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= MAXIMUM_DEPTH {
            let token = self.current();
            return Err(Error::limit("The template is nested too deeply").or_at(token.start, token.end));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Data, outputs and statements up to one of the end tags, whose name is then the current token.
    fn subparse(&mut self, end_tags: &[&str]) -> Result<Vec<Statement>, Error> {
        let mut body = Vec::new();
        loop {
            match &self.current().kind {
                TokenKind::End => return Ok(body),
                TokenKind::Data(text) => {
                    body.push(Statement::Data(text.as_str().into()));
                    self.advance();
                }
                TokenKind::VariableBegin => {
                    self.advance();
                    let expression = self.parse_tuple(true, false)?;
                    body.push(Statement::Output(expression));
                    if self.current().kind != TokenKind::VariableEnd {
                        return self.unexpected("the end of the expression");
                    }
                    self.advance();
                }
                TokenKind::BlockBegin => {
                    self.advance();
                    if end_tags.iter().any(|tag| self.is_name(tag)) {
                        return Ok(body);
                    }
                    self.nested(|parser| parser.parse_statement(&mut body))?;
                    self.expect_block_end()?;
                }
                _ => return self.unexpected("text"),
            }
        }
    }

    /// The body of a statement up to one of the end tags; fails where the template ends before.
    fn parse_body(&mut self, end_tags: &[&str], opened: usize) -> Result<Vec<Statement>, Error> {
        self.skip_operator(":");
        self.expect_block_end()?;
        let body = self.subparse(end_tags)?;
        if self.current().kind == TokenKind::End {
            let expected: Vec<String> = end_tags.iter().map(|tag| format!("`{tag}`")).collect();
            let message = format!("Unexpected end of template, expected {}", expected.join(" or "));
            return Err(Error::new(ErrorKind::Syntax, message).or_at(opened, opened));
        }
        Ok(body)
    }
}

fn describe(kind: &TokenKind) -> String {
    match kind {
        TokenKind::Data(_) => "text".into(),
        TokenKind::VariableBegin => "`{{`".into(),
        TokenKind::VariableEnd => "`}}`".into(),
        TokenKind::BlockBegin => "`{%`".into(),
        TokenKind::BlockEnd => "`%}`".into(),
        TokenKind::Name(name) => format!("`{name}`"),
        TokenKind::Text(_) => "string".into(),
        TokenKind::Number(_) => "number".into(),
        TokenKind::Operator(operator) => format!("`{operator}`"),
        TokenKind::End => "end of template".into(),
    }
}
