//! Brackets, names, signs, and the whitespace between them.

use std::sync::Arc;

use super::{Failure, MAX_DEPTH, number, text};
use crate::dict::Dict;
use crate::float::negate;
use crate::value::Value;

/// Parses an entire string as one expression.
pub(super) fn parse(source: &str) -> Result<Value, Failure> {
    if let Some(at) = source.find('\0') {
        return Err(Failure::new("A literal cannot contain null characters", at));
    }
    let mut parser = Parser { source, bytes: source.as_bytes(), at: 0, depth: 0 };
    parser.line_start()?;
    let value = parser.sequence(None)?.into_value();
    if parser.peek() == Some(b'\n') {
        parser.line_start()?;
    }
    match parser.peek() {
        None => Ok(value?),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser<'s> {
    source: &'s str,
    bytes: &'s [u8],
    at: usize,
    depth: usize,
}

/// A parsed term, as far as a sign before it or a call after it is concerned.
enum Term {
    /// A number without a sign, which may take one.
    Number(Value),
    /// The bare name `set`, which must be called.
    SetName(usize),
    /// Any other value.
    Other(Value),
}

impl Term {
    fn into_value(self) -> Result<Value, Failure> {
        match self {
            Self::Number(value) | Self::Other(value) => Ok(value),
            Self::SetName(at) => Err(Failure::new("Not a literal: `set`", at)),
        }
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn unexpected(&self) -> Failure {
        let message = match self.source[self.at..].chars().next() {
            None => "Unexpected end of input".to_owned(),
            Some('\n') => "Unexpected end of line".to_owned(),
            Some(
                character @ ('+' | '-' | '*' | '/' | '%' | '@' | '&' | '|' | '^' | '~' | '<' | '>' | '='),
            ) => {
                format!("Operators are not literals: `{character}`")
            }
            Some(character) => format!("Unexpected character: `{}`", character.escape_debug()),
        };
        Failure::new(message, self.at)
    }

    /// Skips empty lines up to the first line with content, which must not be indented.
    fn line_start(&mut self) -> Result<(), Failure> {
        loop {
            let mut column = 0;
            // The column of a line continued after a backslash is that of the backslash, unless that is 0.
            let mut continued = 0;
            loop {
                match self.peek() {
                    Some(b' ' | b'\t') => column += 1,
                    Some(b'\x0c') => column = 0,
                    Some(b'\\') => {
                        if continued == 0 {
                            continued = column;
                        }
                        self.continuation()?;
                        continue;
                    }
                    Some(b'#') => {
                        self.comment();
                        break;
                    }
                    Some(b'\n') => break,
                    _ if column == 0 && continued == 0 => return Ok(()),
                    _ => return Err(Failure::new("The line is indented", self.at)),
                }
                self.at += 1;
            }
            if self.peek().is_none() {
                return Ok(());
            }
            self.at += 1;
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    /// Skips a backslash and the end of its line; something must follow.
    fn continuation(&mut self) -> Result<(), Failure> {
        if self.bytes.get(self.at + 1) != Some(&b'\n') {
            return Err(Failure::new("Nothing but the end of the line may follow a backslash", self.at));
        }
        self.at += 2;
        if self.peek().is_none() {
            return Err(self.unexpected());
        }
        Ok(())
    }

    /// Skips whitespace and comments and, inside brackets, line breaks.
    fn skip_whitespace(&mut self) -> Result<(), Failure> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\x0c') => self.at += 1,
                Some(b'\n') if self.depth > 0 => self.at += 1,
                Some(b'#') => self.comment(),
                Some(b'\\') => self.continuation()?,
                _ => return Ok(()),
            }
        }
    }

    fn open(&mut self) -> Result<(), Failure> {
        if self.depth >= MAX_DEPTH {
            return Err(Failure::new(format!("More than {MAX_DEPTH} nested brackets"), self.at));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_whitespace()
    }

    fn close(&mut self, bracket: u8) -> Result<(), Failure> {
        if self.peek() != Some(bracket) {
            return Err(self.unexpected());
        }
        self.depth -= 1;
        self.at += 1;
        self.skip_whitespace()
    }

    /// Skips a comma; false if there is none.
    fn comma(&mut self) -> Result<bool, Failure> {
        let found = self.peek() == Some(b',');
        if found {
            self.at += 1;
            self.skip_whitespace()?;
        }
        Ok(found)
    }

    /// Parses one expression, or a tuple without parentheses that ends before `close`.
    fn sequence(&mut self, close: Option<u8>) -> Result<Term, Failure> {
        let first = self.term()?;
        if self.peek() != Some(b',') {
            return Ok(first);
        }
        let mut items = vec![first.into_value()?];
        while self.comma()? {
            if matches!(self.peek(), None | Some(b'\n')) || self.peek() == close {
                break;
            }
            items.push(self.expression()?);
        }
        Ok(Term::Other(Value::Tuple(Arc::new(items))))
    }

    fn expression(&mut self) -> Result<Value, Failure> {
        self.term()?.into_value()
    }

    /// Parses one expression and the whitespace after it.
    fn term(&mut self) -> Result<Term, Failure> {
        let start = self.at;
        let sign = self.peek().filter(|byte| matches!(byte, b'+' | b'-'));
        if let Some(sign) = sign {
            self.at += 1;
            self.skip_whitespace()?;
            return match self.atom()? {
                Term::Number(value) => Ok(Term::Other(if sign == b'-' { negate(value) } else { value })),
                _ => Err(Failure::new("Only a number can take a sign", start)),
            };
        }
        let mut term = self.atom()?;
        if let (Term::SetName(_), Some(b'(')) = (&term, self.peek()) {
            self.open()?;
            self.close(b')')?;
            term = Term::Other(Value::Set(Arc::default()));
        }
        if let Some(b'(' | b'[' | b'.') = self.peek() {
            return Err(Failure::new("Calls, subscripts and attributes are not literals", self.at));
        }
        Ok(term)
    }

    fn atom(&mut self) -> Result<Term, Failure> {
        match self.peek() {
            Some(b'(') => self.parentheses(),
            Some(b'[') => self.list(),
            Some(b'{') => self.braces(),
            Some(b'0'..=b'9') => self.number(),
            Some(b'.') if self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit) => self.number(),
            Some(b'\'' | b'"') => self.strings(),
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii() => self.name(),
            _ => Err(self.unexpected()),
        }
    }

    fn parentheses(&mut self) -> Result<Term, Failure> {
        self.open()?;
        if self.peek() == Some(b')') {
            self.close(b')')?;
            return Ok(Term::Other(Value::Tuple(Arc::default())));
        }
        // A sign or a call outside the parentheses applies to the term inside.
        let term = self.sequence(Some(b')'))?;
        self.close(b')')?;
        Ok(term)
    }

    fn list(&mut self) -> Result<Term, Failure> {
        self.open()?;
        let mut items = Vec::new();
        while self.peek() != Some(b']') {
            items.push(self.expression()?);
            if !self.comma()? {
                break;
            }
        }
        self.close(b']')?;
        Ok(Term::Other(Value::from(items)))
    }

    fn braces(&mut self) -> Result<Term, Failure> {
        self.open()?;
        if self.peek() == Some(b'}') {
            self.close(b'}')?;
            return Ok(Term::Other(Value::from(Dict::new())));
        }
        let first = self.key()?;
        let value = if self.peek() == Some(b':') { self.dict_after(first)? } else { self.set_after(first)? };
        self.close(b'}')?;
        Ok(Term::Other(value))
    }

    fn key(&mut self) -> Result<Value, Failure> {
        let start = self.at;
        let key = self.expression()?;
        match unhashable(&key) {
            Some(name) => {
                Err(Failure::new(format!("A `{name}` cannot be a key or a member of a set"), start))
            }
            None => Ok(key),
        }
    }

    fn dict_after(&mut self, first: Value) -> Result<Value, Failure> {
        let mut dict = Dict::new();
        let mut key = first;
        loop {
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            self.skip_whitespace()?;
            let value = self.expression()?;
            dict.insert(key, value);
            if !self.comma()? || self.peek() == Some(b'}') {
                return Ok(Value::from(dict));
            }
            key = self.key()?;
        }
    }

    fn set_after(&mut self, first: Value) -> Result<Value, Failure> {
        let mut items = vec![first];
        while self.comma()? && self.peek() != Some(b'}') {
            items.push(self.key()?);
        }
        Ok(Value::set(items))
    }

    fn number(&mut self) -> Result<Term, Failure> {
        let (value, end) = number::read(self.source, self.at)?;
        self.at = end;
        self.skip_whitespace()?;
        Ok(Term::Number(value))
    }

    fn name(&mut self) -> Result<Term, Failure> {
        let start = self.at;
        let rest = &self.source[start..];
        let length = rest
            .find(|character: char| {
                character.is_ascii() && !character.is_ascii_alphanumeric() && character != '_'
            })
            .unwrap_or(rest.len());
        let name = &rest[..length];
        if let Some(b'\'' | b'"') = self.bytes.get(start + length) {
            return self.strings();
        }
        let term = match name {
            "None" => Term::Other(Value::None),
            "True" => Term::Other(Value::Bool(true)),
            "False" => Term::Other(Value::Bool(false)),
            "set" => Term::SetName(start),
            _ => return Err(Failure::new(format!("Not a literal: `{}`", super::start(name)), start)),
        };
        self.at += length;
        self.skip_whitespace()?;
        Ok(term)
    }

    /// Parses one or more adjacent strings, which are concatenated.
    fn strings(&mut self) -> Result<Term, Failure> {
        let mut joined = text::Joined::default();
        loop {
            self.at = joined.read(self.source, self.at)?;
            self.skip_whitespace()?;
            if !text::starts_at(self.bytes, self.at) {
                return Ok(Term::Other(joined.into_value()));
            }
        }
    }
}

/// The type that makes a value unhashable.
fn unhashable(value: &Value) -> Option<&'static str> {
    match value {
        Value::List(_) | Value::Dict(_) | Value::Set(_) => Some(value.type_name()),
        Value::Tuple(items) => items.iter().find_map(unhashable),
        _ => None,
    }
}
