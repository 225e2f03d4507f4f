//! Splits a template into tokens.
//!
//! A template is text with islands: `{{ … }}` prints, `{% … %}` is a statement, `{# … #}` a comment, and
//! everything between `{% raw %}` and `{% endraw %}` is text. The lexer is either outside or inside of an
//! island, and [`Lexer::next`] reads one token. Tokens borrow from the template and are read on demand, so a
//! template rejected for its depth is never read to its end.
//!
//! Whitespace next to an island belongs to the delimiters ("Whitespace Control" in Jinja's template designer
//! documentation): `-` consumes all of it, `+` none, and without a sign the environment's settings decide.

mod literal;

use std::borrow::Cow;

use lmeval_pycompat::{Value, strings};

use crate::ast::Span;
use crate::error::{Error, ErrorKind};

/// Whitespace handling around tags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whitespace {
    /// `trim_blocks`: a newline right after a tag belongs to the tag.
    pub(crate) trim_blocks: bool,
    /// `lstrip_blocks`: spaces between the start of a line and a tag belong to the tag.
    pub(crate) lstrip_blocks: bool,
    pub(crate) keep_trailing_newline: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'s> {
    /// Text printed verbatim.
    Text(&'s str),
    OpenPrint,
    ClosePrint,
    OpenTag,
    CloseTag,
    Word(&'s str),
    Quoted(Cow<'s, str>),
    Number(Value),
    Symbol(Symbol),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    Plus,
    Minus,
    Star,
    StarStar,
    Slash,
    SlashSlash,
    Percent,
    Tilde,
    EqualEqual,
    BangEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    Dot,
    Colon,
    Pipe,
    Comma,
    /// An opening bracket: `(`, `[` or `{`.
    Open(Bracket),
    /// A closing bracket.
    Close(Bracket),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bracket {
    Round,
    Square,
    Curly,
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme<'s> {
    pub(crate) token: Token<'s>,
    pub(crate) span: Span,
}

/// Normalizes line endings to `\n`, and drops a final one unless it is to be kept.
pub(crate) fn normalize_newlines(source: &str, keep_trailing_newline: bool) -> String {
    let mut text = if source.contains('\r') {
        source.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        source.to_owned()
    };
    if !keep_trailing_newline && text.ends_with('\n') {
        text.pop();
    }
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    Print,
    Tag,
}

pub(crate) struct Lexer<'s> {
    source: &'s str,
    position: usize,
    state: State,
    whitespace: Whitespace,
    /// Whether the position is at the start of a line.
    at_line_start: bool,
    /// Open brackets of the island; closing delimiters are recognized only if there are none.
    open: Vec<Bracket>,
}

pub(crate) fn syntax(message: impl Into<String>, span: Span) -> Error {
    Error::new(ErrorKind::Syntax, message).or_at(span.start as usize, span.end as usize)
}

fn without_leading_space(text: &str) -> &str {
    text.trim_start_matches(strings::is_space)
}

/// The sign at the start of a string, and the rest.
fn sign(text: &str) -> (Option<u8>, &str) {
    match text.as_bytes().first() {
        Some(sign @ (b'-' | b'+')) => (Some(*sign), &text[1..]),
        _ => (None, text),
    }
}

impl<'s> Lexer<'s> {
    /// A lexer for a template with normalized line endings.
    pub(crate) fn new(source: &'s str, whitespace: Whitespace) -> Self {
        let open = Vec::new();
        Self { source, position: 0, state: State::Outside, whitespace, at_line_start: true, open }
    }

    /// A lexer for an expression without delimiters around it.
    pub(crate) fn of_expression(source: &'s str) -> Self {
        Self { state: State::Print, ..Self::new(source, Whitespace::default()) }
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Result<Lexeme<'s>, Error> {
        let start = if self.state == State::Outside {
            let start = self.position;
            if let Some(token) = self.outside()? {
                return Ok(self.lexeme(token, start));
            }
            self.position
        } else {
            self.position = self.source.len() - without_leading_space(self.rest()).len();
            self.position
        };
        if start == self.source.len() {
            return Ok(self.lexeme(Token::End, start));
        }
        let token = self.inside()?;
        Ok(self.lexeme(token, start))
    }

    fn lexeme(&self, token: Token<'s>, start: usize) -> Lexeme<'s> {
        Lexeme { token, span: Span::new(start, self.position) }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    /// The offset of a suffix of the source.
    fn offset_of(&self, rest: &str) -> usize {
        self.source.len() - rest.len()
    }

    /// Reads text up to the next island, or the start of that island; `None` at the end.
    fn outside(&mut self) -> Result<Option<Token<'s>>, Error> {
        while self.position < self.source.len() {
            let start = self.position;
            let Some(island) = next_island(self.rest()).map(|offset| start + offset) else {
                self.position = self.source.len();
                return Ok(Some(Token::Text(&self.source[start..])));
            };
            let kind = self.source.as_bytes()[island + 1];
            let (sign, after) = sign(&self.source[island + 2..]);
            let text = self.text_before(&self.source[start..island], sign, kind != b'{');
            self.position = island;
            if !text.is_empty() {
                return Ok(Some(Token::Text(text)));
            }
            let inner = self.offset_of(after);
            self.at_line_start = false;
            match kind {
                b'#' => self.skip_comment(island, inner)?,
                b'%' => {
                    if let Some(body) = raw_body(after) {
                        let text = self.raw(island, body)?;
                        if !text.is_empty() {
                            return Ok(Some(Token::Text(text)));
                        }
                    } else {
                        self.position = inner;
                        self.state = State::Tag;
                        return Ok(Some(Token::OpenTag));
                    }
                }
                _ => {
                    self.position = inner;
                    self.state = State::Print;
                    return Ok(Some(Token::OpenPrint));
                }
            }
        }
        Ok(None)
    }

    /// The text before an island, without the whitespace that its delimiter consumes.
    fn text_before(&self, text: &'s str, sign: Option<u8>, is_tag: bool) -> &'s str {
        if sign == Some(b'-') {
            return text.trim_end_matches(strings::is_space);
        }
        if sign.is_none() && is_tag && self.whitespace.lstrip_blocks {
            let line = text.rfind('\n').map_or(0, |newline| newline + 1);
            if (line > 0 || self.at_line_start) && text[line..].chars().all(strings::is_space) {
                return &text[..line];
            }
        }
        text
    }

    /// The rest after a closing delimiter and the whitespace it consumes; `None` if `text` does not start
    /// with one.
    fn after_closing(&self, text: &'s str, delimiter: &str) -> Option<&'s str> {
        let (sign, unsigned) = sign(text);
        let is_tag = delimiter != "}}";
        match sign {
            Some(b'-') => unsigned.strip_prefix(delimiter).map(without_leading_space),
            Some(_) => unsigned.strip_prefix(delimiter).filter(|_| is_tag),
            None => {
                let rest = text.strip_prefix(delimiter)?;
                let newline =
                    if is_tag && self.whitespace.trim_blocks { rest.strip_prefix('\n') } else { None };
                Some(newline.unwrap_or(rest))
            }
        }
    }

    /// Continues as text from `position`.
    fn leave(&mut self, position: usize) {
        self.state = State::Outside;
        self.position = position;
        self.at_line_start = self.source[..position].ends_with('\n');
    }

    fn skip_comment(&mut self, island: usize, inner: usize) -> Result<(), Error> {
        let text = &self.source[inner..];
        let Some(end) = text.find("#}") else {
            // Reference: an opening delimiter that ends the template is ignored.
            if text.is_empty() {
                self.leave(inner);
                return Ok(());
            }
            return Err(syntax("This comment is not closed by `#}`", Span::new(island, inner)));
        };
        let has_sign = text[..end].ends_with(['-', '+']);
        let closing = &text[end - usize::from(has_sign)..];
        let rest = self.after_closing(closing, "#}").unwrap_or_default();
        self.leave(self.offset_of(rest));
        Ok(())
    }

    /// Reads a raw block whose body starts with `body`.
    fn raw(&mut self, island: usize, body: &'s str) -> Result<&'s str, Error> {
        self.at_line_start = self.source[..self.offset_of(body)].ends_with('\n');
        for (tag, _) in body.match_indices("{%") {
            let (sign, inside) = sign(&body[tag + 2..]);
            let Some(rest) = without_leading_space(inside).strip_prefix("endraw") else { continue };
            if let Some(rest) = self.after_closing(without_leading_space(rest), "%}") {
                let text = self.text_before(&body[..tag], sign, true);
                self.leave(self.offset_of(rest));
                return Ok(text);
            }
        }
        if body.is_empty() {
            self.leave(self.source.len());
            return Ok(body);
        }
        let span = Span::new(island, self.offset_of(body));
        Err(syntax("This raw block is not closed by `{% endraw %}`", span))
    }

    /// Reads one token of an island; leading whitespace is already skipped.
    fn inside(&mut self) -> Result<Token<'s>, Error> {
        let (delimiter, closing) = match self.state {
            State::Tag => ("%}", Token::CloseTag),
            _ => ("}}", Token::ClosePrint),
        };
        let rest = self.rest();
        if self.open.is_empty()
            && let Some(after) = self.after_closing(rest, delimiter)
        {
            self.leave(self.offset_of(after));
            return Ok(closing);
        }
        let start = self.position;
        let first = rest.as_bytes()[0];
        if first.is_ascii_digit() {
            let after_dot = self.source[..start].ends_with('.');
            let (number, length) = literal::number(rest, after_dot)
                .map_err(|message| syntax(message, Span::new(start, start + 1)))?;
            self.position += length;
            return Ok(Token::Number(number));
        }
        if first == b'"' || first == b'\'' {
            let open = Span::new(start, start + 1);
            let quoted = literal::quoted(rest).ok_or_else(|| syntax("This string is not closed", open))?;
            let (text, length) = quoted.map_err(|message| syntax(message, open))?;
            self.position += length;
            return Ok(Token::Quoted(text));
        }
        let word = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        if word > 0 {
            self.position += word;
            let name = &rest[..word];
            if !strings::is_identifier(name) {
                let message = format!("`{name}` is not a valid name");
                return Err(syntax(message, Span::new(start, self.position)));
            }
            return Ok(Token::Word(name));
        }
        self.symbol(rest)
    }

    fn symbol(&mut self, rest: &str) -> Result<Token<'s>, Error> {
        let start = self.position;
        let bytes = rest.as_bytes();
        let (symbol, length) = match (bytes[0], bytes.get(1)) {
            (b'*', Some(b'*')) => (Symbol::StarStar, 2),
            (b'/', Some(b'/')) => (Symbol::SlashSlash, 2),
            (b'=', Some(b'=')) => (Symbol::EqualEqual, 2),
            (b'!', Some(b'=')) => (Symbol::BangEqual, 2),
            (b'<', Some(b'=')) => (Symbol::LessEqual, 2),
            (b'>', Some(b'=')) => (Symbol::GreaterEqual, 2),
            (b'+', _) => (Symbol::Plus, 1),
            (b'-', _) => (Symbol::Minus, 1),
            (b'*', _) => (Symbol::Star, 1),
            (b'/', _) => (Symbol::Slash, 1),
            (b'%', _) => (Symbol::Percent, 1),
            (b'~', _) => (Symbol::Tilde, 1),
            (b'<', _) => (Symbol::Less, 1),
            (b'>', _) => (Symbol::Greater, 1),
            (b'=', _) => (Symbol::Equal, 1),
            (b'.', _) => (Symbol::Dot, 1),
            (b':', _) => (Symbol::Colon, 1),
            (b'|', _) => (Symbol::Pipe, 1),
            (b',', _) => (Symbol::Comma, 1),
            (b'(', _) => (Symbol::Open(Bracket::Round), 1),
            (b'[', _) => (Symbol::Open(Bracket::Square), 1),
            (b'{', _) => (Symbol::Open(Bracket::Curly), 1),
            (b')', _) => (Symbol::Close(Bracket::Round), 1),
            (b']', _) => (Symbol::Close(Bracket::Square), 1),
            (b'}', _) => (Symbol::Close(Bracket::Curly), 1),
            _ => {
                let character = rest.chars().next().unwrap_or_default();
                let span = Span::new(start, start + character.len_utf8());
                return Err(syntax(format!("Unexpected character `{character}`"), span));
            }
        };
        self.position += length;
        match symbol {
            Symbol::Open(bracket) => self.open.push(bracket),
            Symbol::Close(bracket) if self.open.pop() != Some(bracket) => {
                let message = "This bracket does not match an open one";
                return Err(syntax(message, Span::new(start, self.position)));
            }
            _ => {}
        }
        Ok(Token::Symbol(symbol))
    }
}

/// The offset of the next `{{`, `{%` or `{#`.
fn next_island(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let brace = from + text[from..].find('{')?;
        if matches!(bytes.get(brace + 1), Some(b'{' | b'%' | b'#')) {
            return Some(brace);
        }
        from = brace + 1;
    }
}

/// The rest after ` raw %}`, if a tag's inside starts with that.
fn raw_body(inside: &str) -> Option<&str> {
    let rest = without_leading_space(without_leading_space(inside).strip_prefix("raw")?);
    match rest.strip_prefix("-%}") {
        Some(rest) => Some(without_leading_space(rest)),
        None => rest.strip_prefix("%}"),
    }
}

fn is_word(character: char) -> bool {
    if character.is_ascii() {
        return character == '_' || character.is_ascii_alphanumeric();
    }
    // A combining mark continues an identifier although it is not a letter.
    strings::is_alnum(character) || strings::is_identifier(&format!("a{character}"))
}
