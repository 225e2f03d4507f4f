//! From template text to tokens.

use std::sync::Arc;

use lmeval_pycompat::{Value, strings};
use num_bigint::BigInt;
use num_traits::Num;

use crate::error::{Error, ErrorKind};

/// How whitespace around tags is treated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whitespace {
    pub(crate) trim_blocks: bool,
    pub(crate) lstrip_blocks: bool,
    pub(crate) keep_trailing_newline: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Data(String),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(Arc<str>),
    Text(String),
    Number(Value),
    Operator(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Longest first, so that the first match is the right one.
const OPERATORS: [&str; 25] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",",
];

/// The text with every line end as `\n`, and without the last one where it is not to be kept.
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

/// Splits a normalised template into tokens.
pub(crate) fn tokenize(source: &str, whitespace: Whitespace) -> Result<Vec<Token>, Error> {
    let mut lexer = Lexer { source, position: 0, tokens: Vec::new(), whitespace, line_starting: true };
    lexer.run()?;
    lexer.push(TokenKind::End, source.len(), source.len());
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    position: usize,
    tokens: Vec<Token>,
    whitespace: Whitespace,
    line_starting: bool,
}

fn syntax(message: impl Into<String>, start: usize, end: usize) -> Error {
    Error::new(ErrorKind::Syntax, message).or_at(start, end)
}

fn skip_space(text: &str) -> usize {
    text.len() - text.trim_start_matches(strings::is_space).len()
}

impl<'a> Lexer<'a> {
    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        self.tokens.push(Token { kind, start, end });
    }

    fn rest(&self) -> &'a str {
        &self.source[self.position..]
    }

    fn run(&mut self) -> Result<(), Error> {
        while self.position < self.source.len() {
            let start = self.position;
            let Some(offset) = find_tag(self.rest()) else {
                self.push_data(start, self.source.len());
                return Ok(());
            };
            let tag = start + offset;
            let opener = &self.source[tag..tag + 2];
            let sign = self.source[tag + 2..].chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let data_end = self.strip_before(start, tag, sign, opener != "{{");
            self.push_data(start, data_end);
            let after = tag + 2 + usize::from(sign.is_some());
            self.line_starting = false;
            match opener {
                "{#" => self.comment(tag, after)?,
                "{%" => match raw_begin(&self.source[after..]) {
                    Some(length) => {
                        self.line_starting = self.source[..after + length].ends_with('\n');
                        self.raw(tag, after + length)?;
                    }
                    None => {
                        self.push(TokenKind::BlockBegin, tag, after);
                        self.position = after;
                        self.inside(true)?;
                    }
                },
                _ => {
                    self.push(TokenKind::VariableBegin, tag, after);
                    self.position = after;
                    self.inside(false)?;
                }
            }
        }
        Ok(())
    }

    fn push_data(&mut self, start: usize, end: usize) {
        if end > start {
            self.push(TokenKind::Data(self.source[start..end].to_owned()), start, end);
        }
    }

    /// The end of the data before a tag once its sign and the options have taken their whitespace.
    fn strip_before(&self, start: usize, tag: usize, sign: Option<char>, may_lstrip: bool) -> usize {
        let text = &self.source[start..tag];
        if sign == Some('-') {
            return start + text.trim_end_matches(strings::is_space).len();
        }
        if sign.is_none() && self.whitespace.lstrip_blocks && may_lstrip {
            let line = text.rfind('\n').map_or(0, |newline| newline + 1);
            let at_line_start = line > 0 || self.line_starting;
            if at_line_start && text[line..].chars().all(strings::is_space) {
                return start + line;
            }
        }
        tag
    }

    /// The length of a closing delimiter with the whitespace that belongs to it.
    fn closing(&self, text: &str, delimiter: &str) -> Option<usize> {
        if let Some(rest) = text.strip_prefix('-').and_then(|rest| rest.strip_prefix(delimiter)) {
            return Some(1 + delimiter.len() + skip_space(rest));
        }
        if delimiter != "}}" && text.strip_prefix('+').is_some_and(|rest| rest.starts_with(delimiter)) {
            return Some(1 + delimiter.len());
        }
        let rest = text.strip_prefix(delimiter)?;
        let newline = delimiter != "}}" && self.whitespace.trim_blocks && rest.starts_with('\n');
        Some(delimiter.len() + usize::from(newline))
    }

    fn finish(&mut self, end: usize) {
        self.line_starting = self.source[..end].ends_with('\n');
        self.position = end;
    }

    fn comment(&mut self, tag: usize, after: usize) -> Result<(), Error> {
        let text = &self.source[after..];
        let Some(hash) = text.find("#}") else {
            if text.is_empty() {
                self.finish(after);
                return Ok(());
            }
            return Err(syntax("Missing end of comment tag", tag, after));
        };
        let close = match text[..hash].chars().last() {
            Some('-' | '+') => hash - 1,
            _ => hash,
        };
        let length = self.closing(&text[close..], "#}").unwrap_or(2);
        self.finish(after + close + length);
        Ok(())
    }

    fn raw(&mut self, tag: usize, after: usize) -> Result<(), Error> {
        let text = &self.source[after..];
        let mut search = 0;
        while let Some(found) = text[search..].find("{%") {
            let begin = search + found;
            let inner = &text[begin + 2..];
            let sign = inner.chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let mut inside = &inner[usize::from(sign.is_some())..];
            inside = inside.trim_start_matches(strings::is_space);
            if let Some(rest) = inside.strip_prefix("endraw") {
                let rest = rest.trim_start_matches(strings::is_space);
                if let Some(length) = self.closing(rest, "%}") {
                    let end = self.source.len() - rest.len() + length;
                    let data_end = self.strip_before(after, after + begin, sign, true);
                    self.push_data(after, data_end);
                    self.finish(end);
                    return Ok(());
                }
            }
            search = begin + 2;
        }
        if text.is_empty() {
            self.finish(after);
            return Ok(());
        }
        Err(syntax("Missing end of raw directive", tag, after))
    }

    fn inside(&mut self, block: bool) -> Result<(), Error> {
        let delimiter = if block { "%}" } else { "}}" };
        let mut open: Vec<(char, usize)> = Vec::new();
        while self.position < self.source.len() {
            let start = self.position;
            let rest = self.rest();
            if open.is_empty()
                && let Some(length) = self.closing(rest, delimiter)
            {
                let kind = if block { TokenKind::BlockEnd } else { TokenKind::VariableEnd };
                self.push(kind, start, start + length);
                self.finish(start + length);
                return Ok(());
            }
            let space = skip_space(rest);
            if space > 0 {
                self.position += space;
                continue;
            }
            if let Some((kind, length)) = self.number(rest)? {
                self.push(kind, start, start + length);
                self.position += length;
                continue;
            }
            let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            if word > 0 {
                let name = &rest[..word];
                if !strings::is_identifier(name) {
                    return Err(syntax(
                        format!("Invalid character in identifier `{name}`"),
                        start,
                        start + word,
                    ));
                }
                self.push(TokenKind::Name(name.into()), start, start + word);
                self.position += word;
                continue;
            }
            if let Some(length) = string_length(rest) {
                let text = unescape(&rest[1..length - 1])
                    .map_err(|message| syntax(message, start, start + length))?;
                self.push(TokenKind::Text(text), start, start + length);
                self.position += length;
                continue;
            }
            let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) else {
                let character = rest.chars().next().unwrap_or_default();
                let message = format!("Unexpected character `{character}`");
                return Err(syntax(message, start, start + character.len_utf8()));
            };
            match *operator {
                "(" => open.push((')', start)),
                "[" => open.push((']', start)),
                "{" => open.push(('}', start)),
                ")" | "]" | "}" => match open.pop() {
                    Some((expected, _)) if operator.starts_with(expected) => {}
                    Some((expected, _)) => {
                        let message = format!("Unexpected `{operator}`, expected `{expected}`");
                        return Err(syntax(message, start, start + 1));
                    }
                    None => return Err(syntax(format!("Unexpected `{operator}`"), start, start + 1)),
                },
                _ => {}
            }
            self.push(TokenKind::Operator(operator), start, start + operator.len());
            self.position += operator.len();
        }
        Ok(())
    }

    /// A number at the start of `rest`.
    fn number(&self, rest: &str) -> Result<Option<(TokenKind, usize)>, Error> {
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let after_dot = self.source[..self.position].ends_with('.');
        if !after_dot && let Some(length) = float_length(rest) {
            let digits = rest[..length].replace('_', "");
            let number: f64 = digits
                .parse()
                .map_err(|_| syntax("Invalid number", self.position, self.position + length))?;
            return Ok(Some((TokenKind::Number(Value::Float(number)), length)));
        }
        let (radix, prefix, length) = integer_length(rest);
        let digits = rest[prefix..length].replace('_', "");
        let number = BigInt::from_str_radix(&digits, radix)
            .map_err(|_| syntax("Invalid number", self.position, self.position + length))?;
        Ok(Some((TokenKind::Number(Value::from_bigint(number)), length)))
    }
}

fn find_tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut search = 0;
    while let Some(found) = text[search..].find('{') {
        let position = search + found;
        if matches!(bytes.get(position + 1), Some(b'{' | b'%' | b'#')) {
            return Some(position);
        }
        search = position + 1;
    }
    None
}

/// The length of ` raw %}` after a block's start.
fn raw_begin(text: &str) -> Option<usize> {
    let rest = text.trim_start_matches(strings::is_space).strip_prefix("raw")?;
    let rest = rest.trim_start_matches(strings::is_space);
    let rest = match rest.strip_prefix("-%}") {
        Some(rest) => rest.trim_start_matches(strings::is_space),
        None => rest.strip_prefix("%}")?,
    };
    Some(text.len() - rest.len())
}

fn is_word(character: char) -> bool {
    if character.is_ascii() {
        return character == '_' || character.is_ascii_alphanumeric();
    }
    // Combining marks continue an identifier although they are no letters.
    strings::is_alnum(character) || strings::is_identifier(&format!("a{character}"))
}

/// Digits in groups parted by single underscores.
fn digits_length(text: &str, digit: fn(char) -> bool) -> usize {
    let mut length = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        if digit(character) {
            length = index + 1;
        } else if !(character == '_' && index > 0 && characters.peek().is_some_and(|(_, next)| digit(*next)))
        {
            break;
        }
    }
    length
}

fn is_decimal(character: char) -> bool {
    character.is_ascii_digit()
}

fn float_length(text: &str) -> Option<usize> {
    let whole = digits_length(text, is_decimal);
    let mut end = whole;
    let mut is_float = false;
    if let Some(fraction) = text[end..].strip_prefix('.') {
        let length = digits_length(fraction, is_decimal);
        if length > 0 {
            end += 1 + length;
            is_float = true;
        }
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let length = digits_length(&exponent[sign..], is_decimal);
        if length > 0 {
            end += 1 + sign + length;
            is_float = true;
        }
    }
    is_float.then_some(end)
}

/// The radix, the length of the prefix and the whole length of an integer literal.
fn integer_length(text: &str) -> (u32, usize, usize) {
    for (prefix, radix, digit) in [
        ('b', 2, (|c| matches!(c, '0' | '1')) as fn(char) -> bool),
        ('o', 8, |c| matches!(c, '0'..='7')),
        ('x', 16, |c| c.is_ascii_hexdigit()),
    ] {
        if let Some(rest) =
            text.strip_prefix('0').and_then(|rest| rest.strip_prefix([prefix, prefix.to_ascii_uppercase()]))
        {
            let skip = usize::from(rest.starts_with('_'));
            let length = digits_length(&rest[skip..], digit);
            if length > 0 {
                return (radix, 2, 2 + skip + length);
            }
        }
    }
    let digit: fn(char) -> bool = if text.starts_with('0') { |c| c == '0' } else { is_decimal };
    (10, 0, digits_length(text, digit).max(1))
}

/// The length of a quoted string with its quotes.
fn string_length(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let mut characters = text.char_indices().skip(1);
    while let Some((index, character)) = characters.next() {
        if character == quote {
            return Some(index + 1);
        }
        if character == '\\' {
            characters.next()?;
        }
    }
    None
}

/// Python's escapes in a string; unknown ones stay as they are.
fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' {
            result.push(character);
            continue;
        }
        let Some(escape) = characters.next() else {
            return Err("Trailing backslash in a string".into());
        };
        match escape {
            '\n' => {}
            '\\' | '\'' | '"' => result.push(escape),
            'a' => result.push('\x07'),
            'b' => result.push('\x08'),
            'f' => result.push('\x0c'),
            'n' => result.push('\n'),
            'r' => result.push('\r'),
            't' => result.push('\t'),
            'v' => result.push('\x0b'),
            '0'..='7' => {
                let mut code = escape.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = characters.peek().and_then(|next| next.to_digit(8)) else {
                        break;
                    };
                    code = code * 8 + digit;
                    characters.next();
                }
                result.push(char::from_u32(code).unwrap_or_default());
            }
            'x' | 'u' | 'U' => {
                let length = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let mut code = 0;
                for _ in 0..length {
                    let digit = characters.next().and_then(|next| next.to_digit(16));
                    let digit = digit.ok_or_else(|| format!("Truncated `\\{escape}` escape in a string"))?;
                    code = code * 16 + digit;
                }
                let character = char::from_u32(code);
                result
                    .push(character.ok_or_else(|| format!("Character `\\{escape}{code:x}` does not exist"))?);
            }
            'N' => return Err("Named characters `\\N{…}` are not supported".into()),
            other => {
                result.push('\\');
                result.push(other);
            }
        }
    }
    Ok(result)
}
