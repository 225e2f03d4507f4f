//! `json.dumps`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

use num_bigint::BigInt;
use num_traits::FromPrimitive;

use crate::dict::Dict;
use crate::repr::{write_float, write_repr};
use crate::value::Value;

use super::MAX_DEPTH;

/// Returns a replacement for a value that JSON cannot represent, if there is one.
pub type DefaultHook<'a> = &'a dyn Fn(&Value) -> Option<Value>;

/// The arguments of `json.dumps`, with Python's defaults.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Whether to escape everything but ASCII.
    pub ensure_ascii: bool,
    /// Spaces per level; `None` puts everything on one line.
    pub indent: Option<usize>,
    /// The separators between items and between a key and its value. `None` means `(", ", ": ")`, or `(",", ": ")` with
    /// an indent.
    pub separators: Option<(&'a str, &'a str)>,
    /// Whether to sort keys.
    pub sort_keys: bool,
    /// Whether to write `NaN`, `Infinity` and `-Infinity` rather than fail.
    pub allow_nan: bool,
    /// Whether to drop entries whose key is not a string, number, `bool` or `None`.
    pub skip_keys: bool,
    /// Replaces a value that JSON cannot represent; if it returns `None`, that is an error.
    pub default: Option<DefaultHook<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            ensure_ascii: true,
            indent: None,
            separators: None,
            sort_keys: false,
            allow_nan: true,
            skip_keys: false,
            default: None,
        }
    }
}

/// Why a value cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A value of a type that JSON does not have.
    #[error("JSON has no type for a `{0}`")]
    Type(&'static str),
    /// A key of a type that JSON does not allow as a key.
    #[error("A `{0}` cannot be a key in JSON")]
    Key(&'static str),
    /// Keys of types that cannot be compared.
    #[error("Cannot sort keys of types `{0}` and `{1}`")]
    Sort(&'static str, &'static str),
    /// NaN or an infinity, and [`Options::allow_nan`] is off.
    #[error("NaN and infinities are not allowed in this JSON")]
    Float,
    /// More nesting than [`MAX_DEPTH`].
    #[error("Nested more than {MAX_DEPTH} levels deep")]
    Depth,
}

/// `json.dumps(value)`.
pub fn dumps(value: &Value, options: &Options) -> Result<String, EncodeError> {
    let mut out = String::new();
    write(&mut out, value, options)?;
    Ok(out)
}

/// Appends `json.dumps(value)`. After an error, the output written so far remains.
pub fn write(out: &mut String, value: &Value, options: &Options) -> Result<(), EncodeError> {
    let default = if options.indent.is_some() { (",", ": ") } else { (", ", ": ") };
    let (item_separator, key_separator) = options.separators.unwrap_or(default);
    Writer { out, options, item_separator, key_separator, depth: 0 }.value(value)
}

struct Writer<'a, 'o> {
    out: &'a mut String,
    options: &'o Options<'o>,
    item_separator: &'o str,
    key_separator: &'o str,
    depth: usize,
}

impl Writer<'_, '_> {
    fn value(&mut self, value: &Value) -> Result<(), EncodeError> {
        match value {
            Value::None => self.out.push_str("null"),
            Value::Bool(truth) => self.out.push_str(if *truth { "true" } else { "false" }),
            Value::Int(_) | Value::BigInt(_) => write_repr(self.out, value),
            Value::Float(number) => self.float(*number)?,
            Value::Str(text) => self.string(text),
            Value::List(items) | Value::Tuple(items) => self.list(items)?,
            Value::Dict(dict) => self.dict(dict)?,
            _ => {
                let replace = self.options.default.and_then(|default| default(value));
                let replacement = replace.ok_or(EncodeError::Type(value.type_name()))?;
                self.enter()?;
                self.value(&replacement)?;
                self.depth -= 1;
            }
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), EncodeError> {
        if self.depth >= MAX_DEPTH {
            return Err(EncodeError::Depth);
        }
        self.depth += 1;
        Ok(())
    }

    fn float(&mut self, number: f64) -> Result<(), EncodeError> {
        if number.is_finite() {
            write_float(self.out, number);
        } else if !self.options.allow_nan {
            return Err(EncodeError::Float);
        } else if number.is_nan() {
            self.out.push_str("NaN");
        } else {
            self.out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
        }
        Ok(())
    }

    fn new_line(&mut self) {
        if let Some(indent) = self.options.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * self.depth));
        }
    }

    fn list(&mut self, items: &[Value]) -> Result<(), EncodeError> {
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.enter()?;
        self.out.push('[');
        self.new_line();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(self.item_separator);
                self.new_line();
            }
            self.value(item)?;
        }
        self.depth -= 1;
        self.new_line();
        self.out.push(']');
        Ok(())
    }

    fn dict(&mut self, dict: &Dict) -> Result<(), EncodeError> {
        if dict.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        self.enter()?;
        self.out.push('{');
        // Python writes this before it looks at the keys, so it stays even if all of them are skipped.
        self.new_line();
        let mut first = true;
        if self.options.sort_keys {
            for (key, value) in sorted(dict)? {
                self.entry(key, value, &mut first)?;
            }
        } else {
            for (key, value) in dict.iter() {
                self.entry(key, value, &mut first)?;
            }
        }
        self.depth -= 1;
        self.new_line();
        self.out.push('}');
        Ok(())
    }

    fn entry(&mut self, key: &Value, value: &Value, first: &mut bool) -> Result<(), EncodeError> {
        let key = match key {
            Value::Str(text) => Cow::Borrowed(&**text),
            Value::None => Cow::Borrowed("null"),
            Value::Bool(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            Value::Int(_) | Value::BigInt(_) => Cow::Owned(crate::repr::repr(key)),
            Value::Float(number) => {
                let mut text = String::new();
                Writer { out: &mut text, ..*self }.float(*number)?;
                Cow::Owned(text)
            }
            _ if self.options.skip_keys => return Ok(()),
            _ => return Err(EncodeError::Key(key.type_name())),
        };
        if !std::mem::take(first) {
            self.out.push_str(self.item_separator);
            self.new_line();
        }
        self.string(&key);
        self.out.push_str(self.key_separator);
        self.value(value)
    }

    fn string(&mut self, text: &str) {
        self.out.reserve(text.len() + 2);
        self.out.push('"');
        if self.options.ensure_ascii {
            write_escaped(self.out, text, |byte| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..));
        } else {
            write_escaped(self.out, text, |byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
        }
        self.out.push('"');
    }
}

/// Appends the string, escaping every character whose first byte is `special`.
fn write_escaped(out: &mut String, text: &str, special: impl Fn(u8) -> bool) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(&special) {
        out.push_str(&rest[..at]);
        let mut characters = rest[at..].chars();
        if let Some(character) = characters.next() {
            write_escape(out, character);
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

fn write_escape(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing into a string cannot fail");
            }
        }
    }
}

/// The entries sorted by key as `sorted` does: strings among strings, numbers among numbers.
///
/// Where Python's sort puts a NaN depends on its position; here it comes first.
fn sorted(dict: &Dict) -> Result<Vec<(&Value, &Value)>, EncodeError> {
    let mut entries: Vec<(&Value, &Value)> = dict.iter().collect();
    if let [(first, _), rest @ ..] = &entries[..] {
        // Checked first, since a sort needs a total order.
        let fits = |key: &Value| match first {
            Value::Str(_) => key.as_str().is_some(),
            _ => is_number(first) && is_number(key),
        };
        if let Some((other, _)) = rest.iter().find(|(key, _)| !fits(key)) {
            return Err(EncodeError::Sort(first.type_name(), other.type_name()));
        }
    }
    entries.sort_by(|(left, _), (right, _)| compare_keys(left, right));
    Ok(entries)
}

fn is_number(key: &Value) -> bool {
    matches!(key, Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_))
}

/// The order of two strings, or of two numbers.
fn compare_keys(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        // Python orders by code point, which is also the order of UTF-8.
        (Value::Str(left), Value::Str(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Float(left), Value::Float(right)) => {
            left.partial_cmp(right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
        }
        (Value::Float(float), integer) => compare_float(*float, &to_bigint(integer)),
        (integer, Value::Float(float)) => compare_float(*float, &to_bigint(integer)).reverse(),
        _ => to_bigint(left).cmp(&to_bigint(right)),
    }
}

fn to_bigint(value: &Value) -> BigInt {
    match value {
        Value::BigInt(number) => (**number).clone(),
        _ => BigInt::from(value.as_i64().unwrap_or_default()),
    }
}

/// The exact order of a float and an integer.
fn compare_float(float: f64, integer: &BigInt) -> Ordering {
    match BigInt::from_f64(float.floor()) {
        Some(floor) => match floor.cmp(integer) {
            Ordering::Equal if float.fract() != 0.0 => Ordering::Greater,
            ordering => ordering,
        },
        None if float > 0.0 => Ordering::Greater,
        None => Ordering::Less,
    }
}
