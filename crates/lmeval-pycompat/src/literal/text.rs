//! Strings and byte strings in literals.

use super::Failure;
use crate::value::Value;

/// The letters before a quote.
#[derive(Clone, Copy, Default)]
struct Prefix {
    raw: bool,
    bytes: bool,
    length: usize,
}

/// Parses the prefix at a position where a string may start; `None` if none does.
fn prefix(bytes: &[u8], at: usize) -> Option<Result<Prefix, Failure>> {
    let rest = &bytes[at.min(bytes.len())..];
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    if !matches!(rest.get(length), Some(b'\'' | b'"')) {
        return None;
    }
    let letters = rest[..length].to_ascii_lowercase();
    let (raw, bytes) = match &letters[..] {
        b"" | b"u" => (false, false),
        b"r" => (true, false),
        b"b" => (false, true),
        b"br" | b"rb" => (true, true),
        b"f" | b"fr" | b"rf" => {
            return Some(Err(Failure::new("Format strings are not literals", at)));
        }
        _ => return Some(Err(Failure::new("Invalid string prefix", at))),
    };
    Some(Ok(Prefix { raw, bytes, length }))
}

/// Whether a string starts at a position.
pub(super) fn starts_at(bytes: &[u8], at: usize) -> bool {
    prefix(bytes, at).is_some()
}

/// Adjacent strings, concatenated.
#[derive(Default)]
pub(super) struct Joined {
    text: String,
    bytes: Vec<u8>,
    is_bytes: Option<bool>,
}

impl Joined {
    pub(super) fn into_value(self) -> Value {
        if self.is_bytes == Some(true) { Value::Bytes(self.bytes.into()) } else { Value::from(self.text) }
    }

    /// Parses the string at a position and returns where it ends.
    pub(super) fn read(&mut self, source: &str, start: usize) -> Result<usize, Failure> {
        let prefix = prefix(source.as_bytes(), start)
            .unwrap_or_else(|| Err(Failure::new("Expected a string", start)))?;
        if *self.is_bytes.get_or_insert(prefix.bytes) != prefix.bytes {
            return Err(Failure::new("Strings and byte strings cannot be joined", start));
        }
        let open = start + prefix.length;
        let quote = &source[open..=open];
        let triple = source[open..].starts_with(&quote.repeat(3));
        let content = open + if triple { 3 } else { 1 };
        let length = content_length(&source[content..], quote.as_bytes()[0], triple)
            .ok_or_else(|| Failure::new("The string is never closed", start))?;
        let end = content + length;
        let text = &source[content..end];
        if prefix.bytes {
            if !text.is_ascii() {
                return Err(Failure::new("A byte string takes only ASCII characters", start));
            }
            self.push_bytes(text, prefix.raw, content)?;
        } else if prefix.raw {
            self.text.push_str(text);
        } else {
            self.push_text(text, content)?;
        }
        Ok(end + if triple { 3 } else { 1 })
    }

    fn push_text(&mut self, text: &str, offset: usize) -> Result<(), Failure> {
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            self.text.push_str(&rest[..at]);
            let here = offset + text.len() - rest.len() + at;
            rest = &rest[at + 1..];
            let (escape, length) = escape(rest, here, true)?;
            match escape {
                // A Rust string cannot contain surrogates.
                Escape::Code(code) => {
                    self.text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Escape::Nothing => {}
                Escape::Unknown => self.text.push('\\'),
            }
            rest = &rest[length..];
        }
        self.text.push_str(rest);
        Ok(())
    }

    fn push_bytes(&mut self, text: &str, raw: bool, offset: usize) -> Result<(), Failure> {
        let mut rest = text;
        while let Some(at) = rest.find('\\').filter(|_| !raw) {
            self.bytes.extend_from_slice(&rest.as_bytes()[..at]);
            let here = offset + text.len() - rest.len() + at;
            rest = &rest[at + 1..];
            let (escape, length) = escape(rest, here, false)?;
            match escape {
                Escape::Code(code) => self.bytes.push(code as u8),
                Escape::Nothing => {}
                Escape::Unknown => self.bytes.push(b'\\'),
            }
            rest = &rest[length..];
        }
        self.bytes.extend_from_slice(rest.as_bytes());
        Ok(())
    }
}

/// The length of a string up to its closing quotes.
fn content_length(text: &str, quote: u8, triple: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b'\\' => {
                // A quote or a line break after a backslash does not end the string.
                bytes.get(at + 1)?;
                at += 2;
            }
            b'\n' if !triple => return None,
            byte if byte == quote && !triple => return Some(at),
            byte if byte == quote && bytes[at..].starts_with(&[quote; 3]) => return Some(at),
            _ => at += 1,
        }
    }
}

/// The meaning of a backslash and the characters after it.
enum Escape {
    Code(u32),
    /// An escaped line break, which is removed.
    Nothing,
    /// Not an escape: the backslash stays.
    Unknown,
}

/// Parses the escape at the start of `rest`; also returns its length in bytes. Byte strings have no Unicode escapes.
fn escape(rest: &str, here: usize, unicode: bool) -> Result<(Escape, usize), Failure> {
    let code = match rest.bytes().next() {
        Some(b'\n') => return Ok((Escape::Nothing, 1)),
        Some(byte @ (b'\\' | b'\'' | b'"')) => u32::from(byte),
        Some(b'a') => 0x07,
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'n') => 0x0a,
        Some(b'r') => 0x0d,
        Some(b't') => 0x09,
        Some(b'v') => 0x0b,
        Some(b'x') => return Ok((Escape::Code(hexadecimal(rest, 2, here)?), 3)),
        Some(b'0'..=b'7') => {
            let digits = rest.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
            let (code, length) =
                digits.fold((0, 0), |(code, length), digit| (code * 8 + u32::from(digit - b'0'), length + 1));
            return Ok((Escape::Code(code), length));
        }
        Some(b'u') if unicode => return Ok((Escape::Code(hexadecimal(rest, 4, here)?), 5)),
        Some(b'U') if unicode => {
            let code = hexadecimal(rest, 8, here)?;
            if code > 0x10_ffff {
                return Err(Failure::new("There is no character with this code point", here));
            }
            return Ok((Escape::Code(code), 9));
        }
        Some(b'N') if unicode => {
            return Err(Failure::new("Character names are not supported: `\\N`", here));
        }
        _ => return Ok((Escape::Unknown, 0)),
    };
    Ok((Escape::Code(code), 1))
}

/// Parses the digits after the letter of an escape.
fn hexadecimal(rest: &str, digits: usize, here: usize) -> Result<u32, Failure> {
    rest.as_bytes()
        .get(1..=digits)
        .and_then(|digits| {
            digits.iter().try_fold(0_u32, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
        })
        .ok_or_else(|| Failure::new("The escape needs more digits", here))
}
