//! The top-level fields of one line of a samples file, without decoding unused values.

use std::borrow::Cow;

use lmeval_pycompat::{Value, json};
use memchr::memchr2;

/// A line that is not one complete JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The offset of the byte at which the object cannot continue.
    pub offset: usize,
}

/// The fields of a JSON object as raw JSON, in order.
///
/// Finding where a value ends is several times faster than decoding it, and most of a sample is prompts and answers.
/// Values are not checked beyond quotes and brackets; decode them with [`Fields::value`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    fields: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Fields<'a> {
    /// Splits a line into its fields.
    ///
    /// ```
    /// use lmeval_analysis::read::Fields;
    ///
    /// let fields = Fields::parse(r#"{"doc_id": 3, "acc": NaN}"#).unwrap();
    /// assert_eq!(fields.raw("acc"), Some("NaN"));
    /// assert!(Fields::parse(r#"{"doc_id": 3, "ac"#).is_err());
    /// ```
    pub fn parse(line: &'a str) -> Result<Self, Malformed> {
        let mut cursor = Cursor { line, at: 0 };
        let mut fields = Vec::with_capacity(20);
        cursor.expect(b'{')?;
        if !cursor.take(b'}') {
            loop {
                let key = cursor.string()?;
                cursor.expect(b':')?;
                fields.push((unescape(key), cursor.value()?));
                if cursor.take(b'}') {
                    break;
                }
                cursor.expect(b',')?;
            }
        }
        cursor.space();
        if cursor.at < line.len() { Err(cursor.malformed()) } else { Ok(Self { fields }) }
    }

    /// The raw JSON of a field. As in Python, the last of several fields with one name wins.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// A decoded field; `None` if it is absent or not JSON.
    pub fn value(&self, name: &str) -> Option<Value> {
        json::loads(self.raw(name)?).ok()
    }

    /// A field that is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let raw = self.raw(name)?;
        raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(unescape)
    }

    /// Names and raw values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.fields.iter().map(|(key, raw)| (key.as_ref(), *raw))
    }
}

/// A string without its quotes, decoded.
fn unescape(inner: &str) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    match json::loads(&format!("\"{inner}\"")) {
        Ok(Value::Str(text)) => Cow::Owned(text.to_string()),
        _ => Cow::Borrowed(inner),
    }
}

struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn malformed(&self) -> Malformed {
        Malformed { offset: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Skips whitespace and `byte`, if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.take(byte) { Ok(()) } else { Err(self.malformed()) }
    }

    /// A string, without its quotes and not decoded.
    fn string(&mut self) -> Result<&'a str, Malformed> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = &self.line.as_bytes()[self.at..];
            let Some(found) = memchr2(b'"', b'\\', rest) else {
                self.at = self.line.len();
                return Err(self.malformed());
            };
            self.at += found;
            if rest[found] == b'"' {
                let inner = &self.line[start..self.at];
                self.at += 1;
                return Ok(inner);
            }
            // The escaped character may be part of a longer one; its first byte is enough to skip.
            self.at = (self.at + 2).min(self.line.len());
        }
    }

    /// Any value, raw.
    fn value(&mut self) -> Result<&'a str, Malformed> {
        self.space();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'"') => drop(self.string()?),
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b':') if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.at += 1;
                    continue;
                }
                Some(byte) if byte.is_ascii_alphanumeric() || b"+-.".contains(&byte) => {
                    while self
                        .peek()
                        .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                    {
                        self.at += 1;
                    }
                }
                _ => return Err(self.malformed()),
            }
            if depth == 0 {
                return Ok(&self.line[start..self.at]);
            }
        }
    }
}
