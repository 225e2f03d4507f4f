//! `json.loads`.

use std::sync::Arc;

use crate::dict::Dict;
use crate::float::{negate, parse_digits};
use crate::value::Value;

use super::MAX_DEPTH;

/// A string that is not valid JSON, with the position of the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}, at line {line}, column {column}")]
pub struct DecodeError {
    /// The error in words, without its position.
    pub message: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The offset from the start in characters, from 0.
    pub position: usize,
}

impl DecodeError {
    fn new(message: &'static str, text: &str, at: usize) -> Self {
        let before = &text[..text.floor_char_boundary(at)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            message,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            position: before.chars().count(),
        }
    }
}

/// `json.loads(text)`.
///
/// As in Python, `NaN`, `Infinity` and `-Infinity` are read, integers have any size up to 4300 digits, and the
/// last of equal keys wins. A lone surrogate (`"\ud800"`), which no Rust string can hold, becomes U+FFFD.
pub fn loads(text: &str) -> Result<Value, DecodeError> {
    Decoder::new().decode(text)
}

/// A decoder for many documents; repeated keys share their memory.
///
/// ```
/// use lmeval_pycompat::json::Decoder;
///
/// let mut decoder = Decoder::new();
/// for line in ["{\"question\": 1}", "{\"question\": 2}"] {
///     assert!(decoder.decode(line).unwrap().as_dict().is_some());
/// }
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    keys: Vec<Option<Arc<str>>>,
    scratch: String,
}

/// The message for a missing separator between two items.
const NO_COMMA: &str = "A comma or the closing bracket is missing";

/// The number of keys in the cache.
const KEYS: usize = 64;

impl Decoder {
    /// Creates a decoder with an empty key cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// `json.loads(text)`; see [`loads`].
    pub fn decode(&mut self, text: &str) -> Result<Value, DecodeError> {
        let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, depth: 0, decoder: self };
        let result = reader.document();
        let at = reader.at;
        result.map_err(|failure| DecodeError::new(failure.message, text, failure.at.unwrap_or(at)))
    }

    fn key(&mut self, text: &str) -> Arc<str> {
        if self.keys.is_empty() {
            self.keys.resize(KEYS, None);
        }
        let bytes = text.as_bytes();
        let mix = |byte: Option<&u8>| byte.map_or(0, |&byte| usize::from(byte));
        let slot = (bytes.len() * 7 + mix(bytes.first()) * 31 + mix(bytes.last())) % KEYS;
        match &self.keys[slot] {
            Some(known) if **known == *text => known.clone(),
            _ => {
                let key: Arc<str> = text.into();
                self.keys[slot] = Some(key.clone());
                key
            }
        }
    }
}

/// An error at the reader's position, or elsewhere.
struct Failure {
    message: &'static str,
    at: Option<usize>,
}

fn fail<T>(message: &'static str) -> Result<T, Failure> {
    Err(Failure { message, at: None })
}

fn fail_at<T>(message: &'static str, at: usize) -> Result<T, Failure> {
    Err(Failure { message, at: Some(at) })
}

struct Reader<'t, 'd> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    depth: usize,
    decoder: &'d mut Decoder,
}

impl<'t> Reader<'t, '_> {
    fn document(&mut self) -> Result<Value, Failure> {
        if self.text.starts_with('\u{feff}') {
            return fail("The document starts with a byte order mark");
        }
        self.skip_whitespace();
        let value = self.value()?;
        self.skip_whitespace();
        if self.at < self.bytes.len() { fail("The document continues after the value") } else { Ok(value) }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, Failure> {
        match self.peek() {
            Some(b'"') => Ok(match self.string()? {
                Text::Plain(text) => Value::str(text),
                Text::Escaped => Value::str(self.decoder.scratch.as_str()),
            }),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Value, Failure> {
        const WORDS: [(&str, Value); 6] = [
            ("null", Value::None),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
            ("-Infinity", Value::Float(f64::NEG_INFINITY)),
        ];
        let rest = &self.bytes[self.at..];
        for (word, value) in WORDS {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        fail("Not a JSON value")
    }

    fn enter(&mut self) -> Result<(), Failure> {
        if self.depth >= MAX_DEPTH {
            return fail("Nested too deeply");
        }
        self.depth += 1;
        self.at += 1;
        self.skip_whitespace();
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn array(&mut self) -> Result<Value, Failure> {
        self.enter()?;
        let mut items = Vec::new();
        if self.peek() != Some(b']') {
            loop {
                items.push(self.value()?);
                self.skip_whitespace();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return fail(NO_COMMA),
                }
                self.skip_whitespace();
            }
        }
        self.leave();
        Ok(Value::from(items))
    }

    fn object(&mut self) -> Result<Value, Failure> {
        self.enter()?;
        let mut dict = Dict::new();
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return fail("A key in double quotes is missing");
                }
                let key = match self.string()? {
                    Text::Plain(text) => self.decoder.key(text),
                    Text::Escaped => self.decoder.scratch.as_str().into(),
                };
                self.skip_whitespace();
                if self.peek() != Some(b':') {
                    return fail("The colon between key and value is missing");
                }
                self.at += 1;
                self.skip_whitespace();
                let value = self.value()?;
                dict.insert(Value::Str(key), value);
                self.skip_whitespace();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return fail(NO_COMMA),
                }
                self.skip_whitespace();
            }
        }
        self.leave();
        Ok(Value::from(dict))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Value, Failure> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => {
                self.digits();
            }
            _ => {
                self.at = start;
                return self.word();
            }
        }
        let whole_end = self.at;
        let mut end = whole_end;
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() > 0 {
                end = self.at;
            }
            self.at = end;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() > 0 {
                end = self.at;
            }
            self.at = end;
        }
        let text = &self.text[start..end];
        if end > whole_end {
            return match text.parse() {
                Ok(number) => Ok(Value::Float(number)),
                Err(_) => fail_at("Not a JSON value", start),
            };
        }
        if let Ok(number) = text.parse() {
            return Ok(Value::Int(number));
        }
        match parse_digits(&text[usize::from(negative)..], 10) {
            Some(number) => Ok(if negative { negate(number) } else { number }),
            None => fail_at("An integer has more than 4300 digits", start),
        }
    }

    /// Reads a string; one with escapes ends up in the scratch buffer.
    fn string(&mut self) -> Result<Text<'t>, Failure> {
        let open = self.at;
        let start = open + 1;
        self.at = run_end(self.bytes, start);
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Text::Plain(text));
        }
        self.decoder.scratch.clear();
        self.decoder.scratch.push_str(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Text::Escaped);
                }
                Some(b'\\') => self.escape(open)?,
                Some(_) => return fail("A control character in a string must be escaped"),
                None => return fail_at("The string is never closed", open),
            }
            let run = self.at;
            self.at = run_end(self.bytes, run);
            self.decoder.scratch.push_str(&self.text[run..self.at]);
        }
    }

    fn escape(&mut self, open: usize) -> Result<(), Failure> {
        let character = match self.bytes.get(self.at + 1) {
            None => return fail_at("The string is never closed", open),
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) => return fail("Unknown escape in a string"),
        };
        self.decoder.scratch.push(character);
        self.at += 2;
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<(), Failure> {
        // Python requires one more character after the digits before it looks at them.
        let Some(high) = self.hexadecimal(self.at).filter(|_| self.at + 6 < self.bytes.len()) else {
            return fail_at("`\\u` takes four hexadecimal digits", self.at + 1);
        };
        self.at += 6;
        let low = self.hexadecimal(self.at).filter(|low| (0xdc00..0xe000).contains(low));
        let code = match (high, low) {
            (0xd800..0xdc00, Some(low)) if self.at + 6 < self.bytes.len() => {
                self.at += 6;
                0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
            }
            _ => high,
        };
        self.decoder.scratch.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    /// The code unit of the escape `\uXXXX` at a position, if there is one.
    fn hexadecimal(&self, at: usize) -> Option<u32> {
        match self.bytes.get(at..at + 6)? {
            [b'\\', b'u', digits @ ..] => {
                digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
            }
            _ => None,
        }
    }
}

/// A string: a slice of the input if it has no escapes, otherwise in the scratch buffer.
enum Text<'t> {
    Plain(&'t str),
    Escaped,
}

/// The end of a run of bytes that need no decoding in a string.
fn run_end(bytes: &[u8], start: usize) -> usize {
    // Eight bytes at a time: the lowest top bit that is set marks the first special byte.
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & TOPS;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let mut at = start;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        let special = below(word, 0x20) | equal(word, b'"') | equal(word, b'\\');
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        at += 1;
    }
    at
}
