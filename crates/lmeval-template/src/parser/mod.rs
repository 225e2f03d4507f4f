//! Parses tokens into the syntax tree.
//!
//! Recursive descent with one token of look-ahead, two in three places. This module has the shared parts: the
//! current token, the two nesting limits, and the bodies between tags ("List of Control Structures" in
//! Jinja's template designer documentation). Statements are in [`statement`], expressions in [`expression`]
//! and [`applied`], assignment targets in [`target`]. Names are recorded in the [`ScopeBuilder`] in the order in
//! which the template uses them: the value of `{% set %}` before its target.

mod applied;
mod expression;
mod statement;
mod target;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::ast::{Block, Body, Expr, ExprKind, Span, Statement};
use crate::error::{Error, ErrorKind, unknown_name};
use crate::lexer::{Bracket, Lexeme, Lexer, Symbol, Token, Whitespace, syntax};
use crate::program::Program;
use crate::scope::{FunctionId, ScopeBuilder, Special};

use expression::Level;

/// Syntax options.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Syntax {
    pub(crate) whitespace: Whitespace,
    /// Whether `break` and `continue` are available.
    pub(crate) loop_controls: bool,
    /// Whether `generation` blocks are available.
    pub(crate) generation: bool,
    /// Whether the source is a single expression without delimiters.
    pub(crate) expression: bool,
}

/// Maximum nesting of statements and expressions together; a statement counts as two.
///
/// Jinja2 compiles to Python, which allows 100 levels of statements and 200 of brackets.
const MAXIMUM_NESTING: u32 = 200;

/// The nesting cost of a statement.
const STATEMENT: u32 = 2;

/// Maximum height of an expression tree, so that the interpreter can walk it on a thread's stack.
const MAXIMUM_HEIGHT: u16 = 250;

struct Parser<'s> {
    lexer: Lexer<'s>,
    current: Lexeme<'s>,
    /// The token after the current one, if already read.
    ahead: Option<Lexeme<'s>>,
    /// The span of the last token taken.
    end: Span,
    syntax: Syntax,
    chat: bool,
    nesting: u32,
    scopes: ScopeBuilder<'s>,
    blocks: Vec<Block>,
    block_names: FxHashSet<&'s str>,
    /// Unknown filters and tests: errors unless an enclosing condition turns up.
    unknown: Vec<(ErrorKind, Arc<str>, Span)>,
    /// Those inside of a condition, which may never be reached.
    unresolved: BTreeSet<String>,
    /// The number of open `for` statements, across macros and blocks.
    loops: u32,
    /// Whether `break` and `continue` are inside of a loop.
    in_loop: bool,
}

/// Parses a template with normalized line endings.
pub(crate) fn parse(source: &Arc<str>, syntax: Syntax, chat: bool) -> Result<Program, Error> {
    let mut lexer =
        if syntax.expression { Lexer::of_expression(source) } else { Lexer::new(source, syntax.whitespace) };
    let current = lexer.next()?;
    let parser = Parser {
        lexer,
        current,
        ahead: None,
        end: Span::default(),
        syntax,
        chat,
        nesting: 0,
        scopes: ScopeBuilder::new(),
        blocks: Vec::new(),
        block_names: FxHashSet::default(),
        unknown: Vec::new(),
        unresolved: BTreeSet::new(),
        loops: 0,
        in_loop: false,
    };
    parser.template(source)
}

impl<'s> Parser<'s> {
    fn template(mut self, source: &Arc<str>) -> Result<Program, Error> {
        let scope = self.scopes.current();
        let function = FunctionId::TEMPLATE;
        self.scopes.watch();
        let statements = if self.syntax.expression {
            vec![Statement::Print(self.whole_expression()?)]
        } else {
            self.statements(None)?
        };
        let watched = self.scopes.end_watch();
        let self_variable = self.scopes.declare(watched, Special::Itself);
        if let Some((kind, name, span)) = self.unknown.first() {
            let error = unknown_name(*kind, name, self.chat);
            return Err(error.or_at(span.start as usize, span.end as usize));
        }
        let body = Body { scope, statements };
        let main = Block { name: "".into(), required: false, body, function, self_variable, around: None };
        Ok(Program {
            source: source.clone(),
            main,
            blocks: self.blocks,
            variables: self.scopes.resolve(self.chat),
            unresolved: self.unresolved,
            changes_values: false,
        })
    }

    /// An expression that ends with the source.
    fn whole_expression(&mut self) -> Result<Expr, Error> {
        let expression = self.tuple(Level::Conditional, None)?;
        match self.current.token {
            Token::End => Ok(expression),
            _ => Err(self.expected("an operator or the end of the expression")),
        }
    }

    // Tokens.

    /// Takes the current token.
    fn advance(&mut self) -> Result<Token<'s>, Error> {
        let next = match self.ahead.take() {
            Some(next) => next,
            None => self.lexer.next()?,
        };
        let taken = std::mem::replace(&mut self.current, next);
        self.end = taken.span;
        Ok(taken.token)
    }

    /// Peeks at the token after the current one.
    fn look_ahead(&mut self) -> Result<&Token<'s>, Error> {
        if self.ahead.is_none() {
            self.ahead = Some(self.lexer.next()?);
        }
        Ok(self.ahead.as_ref().map_or(&Token::End, |next| &next.token))
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.current.token, Token::Word(current) if current == word)
    }

    fn at_symbol(&self, symbol: Symbol) -> bool {
        self.current.token == Token::Symbol(symbol)
    }

    /// Takes the current token if it is this word.
    fn take_word(&mut self, word: &str) -> Result<bool, Error> {
        let found = self.at_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn take_symbol(&mut self, symbol: Symbol) -> Result<bool, Error> {
        let found = self.at_symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_symbol(&mut self, symbol: Symbol, what: &str) -> Result<(), Error> {
        if self.take_symbol(symbol)? { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        if self.take_word(word)? { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// Takes any word.
    fn word(&mut self) -> Result<&'s str, Error> {
        let Token::Word(word) = self.current.token else {
            return Err(self.expected("a name"));
        };
        self.advance()?;
        Ok(word)
    }

    /// Takes the end of a tag.
    fn close_tag(&mut self) -> Result<(), Error> {
        if self.current.token == Token::CloseTag {
            self.advance()?;
            return Ok(());
        }
        Err(self.expected("`%}`"))
    }

    /// The error for an unexpected token.
    fn expected(&self, what: &str) -> Error {
        let found = match &self.current.token {
            Token::Text(_) => "text".to_owned(),
            Token::OpenPrint => "`{{`".to_owned(),
            Token::ClosePrint => "`}}`".to_owned(),
            Token::OpenTag => "`{%`".to_owned(),
            Token::CloseTag => "`%}`".to_owned(),
            Token::Word(word) => format!("`{word}`"),
            Token::Quoted(_) => "a string".to_owned(),
            Token::Number(_) => "a number".to_owned(),
            Token::Symbol(symbol) => format!("`{}`", symbol.spelling()),
            Token::End if self.syntax.expression => "the end of the expression".to_owned(),
            Token::End => "the end of the template".to_owned(),
        };
        syntax(format!("Found {found} instead of {what}"), self.current.span)
    }

    // Limits.

    /// Increases the nesting depth; callers decrease it again unless they fail.
    fn deeper(&mut self, by: u32) -> Result<(), Error> {
        if self.nesting + by > MAXIMUM_NESTING {
            return Err(Self::too_deep(self.current.span));
        }
        self.nesting += by;
        Ok(())
    }

    fn too_deep(span: Span) -> Error {
        Error::limit("The template is nested too deeply").or_at(span.start as usize, span.end as usize)
    }

    /// Creates an expression from `start` to the last token taken.
    fn node(&self, kind: ExprKind, start: Span) -> Result<Expr, Error> {
        let height = kind.height();
        if height > MAXIMUM_HEIGHT {
            return Err(Self::too_deep(start.to(self.end)));
        }
        Ok(Expr { kind, span: start.to(self.end), height })
    }

    // Bodies.

    /// Parses statements up to a tag named in `ends`, or to the end of the template.
    ///
    /// Afterwards the tag's name is the current token.
    fn statements(&mut self, ends: Option<(&[&str], Span)>) -> Result<Vec<Statement>, Error> {
        let mut statements = Vec::new();
        loop {
            match self.current.token {
                Token::Text(text) => {
                    statements.push(Statement::Text(text.into()));
                    self.advance()?;
                }
                Token::OpenPrint => {
                    self.advance()?;
                    statements.push(Statement::Print(self.tuple(Level::Conditional, None)?));
                    if self.current.token != Token::ClosePrint {
                        return Err(self.expected("`}}`"));
                    }
                    self.advance()?;
                }
                Token::OpenTag => {
                    let open = self.current.span;
                    self.advance()?;
                    if let Some((ends, _)) = ends
                        && let Token::Word(word) = self.current.token
                        && ends.contains(&word)
                    {
                        return Ok(statements);
                    }
                    self.deeper(STATEMENT)?;
                    self.statement(open, &mut statements)?;
                    self.nesting -= STATEMENT;
                    self.close_tag()?;
                }
                _ => {
                    return match ends {
                        None => Ok(statements),
                        Some((ends, open)) => {
                            let ends: Vec<String> = ends.iter().map(|end| format!("`{end}`")).collect();
                            let message = format!("This tag is not closed: {} is missing", ends.join(" or "));
                            Err(syntax(message, open))
                        }
                    };
                }
            }
        }
    }

    /// The body of a tag: its end, optionally after a colon, and the statements up to one of `ends`.
    fn body(&mut self, ends: &[&str], open: Span) -> Result<Vec<Statement>, Error> {
        self.take_symbol(Symbol::Colon)?;
        self.close_tag()?;
        self.statements(Some((ends, open)))
    }

    /// A body that ends with a single tag, taken up to its name.
    fn whole_body(&mut self, end: &str, open: Span) -> Result<Vec<Statement>, Error> {
        let statements = self.body(&[end], open)?;
        self.advance()?;
        Ok(statements)
    }
}

impl Symbol {
    fn spelling(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Star => "*",
            Self::StarStar => "**",
            Self::Slash => "/",
            Self::SlashSlash => "//",
            Self::Percent => "%",
            Self::Tilde => "~",
            Self::EqualEqual => "==",
            Self::BangEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Equal => "=",
            Self::Dot => ".",
            Self::Colon => ":",
            Self::Pipe => "|",
            Self::Comma => ",",
            Self::Open(Bracket::Round) => "(",
            Self::Open(Bracket::Square) => "[",
            Self::Open(Bracket::Curly) => "{",
            Self::Close(Bracket::Round) => ")",
            Self::Close(Bracket::Square) => "]",
            Self::Close(Bracket::Curly) => "}",
        }
    }
}
