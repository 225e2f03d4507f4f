//! The JSON codec that the reference passes values through when a column mixes types.
//!
//! Such columns are stored as JSON strings and parsed on access, and array files are first rewritten as JSON
//! lines. The codec is lossy: it writes ten decimals, and its float parser is sometimes off by one unit in the
//! last place. Documents are hashed and printed, so the loss is reproduced.

use std::sync::Arc;

use lmeval_pycompat::repr::float_repr;
use lmeval_pycompat::{Dict, Value};

/// The number of decimals written.
const DECIMALS: i32 = 10;
/// The number of decimals read; later ones are skipped.
const READ_DECIMALS: i32 = 15;
/// The maximum nesting depth.
const DEPTH: usize = 900;

/// Writes a value with the codec and parses it exactly.
pub(crate) fn reencode(value: Value) -> Value {
    map_floats(value, &|number| match write_float(read_float(&float_repr(number))) {
        Some(text) => text.parse().map_or(Value::None, Value::Float),
        None => Value::None,
    })
}

/// Parses a value with the codec.
pub(crate) fn loaded(value: Value) -> Value {
    map_floats(value, &|number| Value::Float(read_float(&float_repr(number))))
}

/// The value of a mixed column as it is read back.
///
/// Reference: a string that is itself valid JSON is mistaken for the encoded form, so `"7"` is read back as `7`.
pub(crate) fn decoded_leaf(value: Value) -> Value {
    match &value {
        Value::Str(text) => decode(text).unwrap_or(value),
        _ => decoded(value),
    }
}

/// Writes and parses a value with the codec.
pub(crate) fn decoded(value: Value) -> Value {
    map_floats(value, &|number| match write_float(read_float(&float_repr(number))) {
        Some(text) => Value::Float(read_float(&text)),
        None => Value::None,
    })
}

fn map_floats(value: Value, change: &dyn Fn(f64) -> Value) -> Value {
    match value {
        Value::Float(number) => change(number),
        Value::List(items) => Value::list(items.iter().map(|item| map_floats(item.clone(), change))),
        Value::Dict(dict) => Value::from(
            dict.iter().map(|(key, item)| (key.clone(), map_floats(item.clone(), change))).collect::<Dict>(),
        ),
        other => other,
    }
}

/// Formats a float like the codec; `None` (written as `null`) if it is not finite.
fn write_float(number: f64) -> Option<String> {
    if !number.is_finite() {
        return None;
    }
    let magnitude = number.abs();
    if magnitude > 1e16 || (magnitude != 0.0 && magnitude < 1e-15) {
        return Some(general_format(number));
    }
    let scale = 10_f64.powi(DECIMALS);
    let mut whole = magnitude as u64;
    let scaled = (magnitude - whole as f64) * scale;
    let mut fraction = scaled as u64;
    let rest = scaled - fraction as f64;
    if rest > 0.5 || (rest == 0.5 && (fraction == 0 || fraction % 2 == 1)) {
        fraction += 1;
    }
    if fraction >= scale as u64 {
        fraction = 0;
        whole += 1;
    }
    let digits = format!("{fraction:010}");
    let digits = digits.trim_end_matches('0');
    let sign = if number < 0.0 { "-" } else { "" };
    Some(format!("{sign}{whole}.{}", if digits.is_empty() { "0" } else { digits }))
}

/// `%.10g` for numbers that need an exponent.
fn general_format(number: f64) -> String {
    let text = format!("{number:.9e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Parses a string that is known to be a number with the codec's float parser.
fn read_float(text: &str) -> f64 {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, depth: 0 };
    match reader.number() {
        Some(Value::Float(number)) => number,
        Some(value) => value.to_f64().unwrap_or(f64::NAN),
        // Only words such as `nan` and `inf` get here.
        None => text.parse().unwrap_or(f64::NAN),
    }
}

/// Parses a complete string; `None` if the codec would reject it.
fn decode(text: &str) -> Option<Value> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, depth: 0 };
    let value = reader.value()?;
    reader.skip_whitespace();
    (reader.at == reader.bytes.len()).then_some(value)
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.skip_whitespace();
        match self.peek()? {
            b'"' => self.string().map(Value::Str),
            b'[' => self.array(),
            b'{' => self.object(),
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                const WORDS: [(&[u8], Value); 5] = [
                    (b"true", Value::Bool(true)),
                    (b"false", Value::Bool(false)),
                    (b"null", Value::None),
                    (b"NaN", Value::None),
                    (b"Infinity", Value::Float(f64::INFINITY)),
                ];
                let rest = &self.bytes[self.at..];
                let (word, value) = WORDS.into_iter().find(|(word, _)| rest.starts_with(word))?;
                self.at += word.len();
                Some(value)
            }
        }
    }

    fn array(&mut self) -> Option<Value> {
        self.enter()?;
        let mut items = Vec::new();
        self.skip_whitespace();
        if self.peek()? != b']' {
            loop {
                items.push(self.value()?);
                self.skip_whitespace();
                match self.peek()? {
                    b',' => self.at += 1,
                    b']' => break,
                    _ => return None,
                }
            }
        }
        self.leave();
        Some(Value::from(items))
    }

    fn object(&mut self) -> Option<Value> {
        self.enter()?;
        let mut dict = Dict::new();
        self.skip_whitespace();
        if self.peek()? != b'}' {
            loop {
                self.skip_whitespace();
                let key = self.string()?;
                self.skip_whitespace();
                if self.peek()? != b':' {
                    return None;
                }
                self.at += 1;
                dict.insert(Value::Str(key), self.value()?);
                self.skip_whitespace();
                match self.peek()? {
                    b',' => self.at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        self.leave();
        Some(Value::from(dict))
    }

    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        self.at += 1;
        (self.depth < DEPTH).then_some(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn string(&mut self) -> Option<Arc<str>> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at;
        loop {
            self.at += 1;
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at += 1;
        let text = std::str::from_utf8(&self.bytes[start..self.at]).ok()?;
        if text[1..].contains(char::is_control) {
            // The codec accepts raw control characters; the exact parser does not.
            let escaped: String = text
                .chars()
                .map(|c| if c.is_ascii_control() { format!("\\u{:04x}", c as u32) } else { c.to_string() })
                .collect();
            return lmeval_pycompat::json::loads(&escaped).ok()?.as_str().map(Arc::from);
        }
        lmeval_pycompat::json::loads(text).ok()?.as_str().map(Arc::from)
    }

    fn digits(&mut self, mut take: impl FnMut(u8)) -> usize {
        let start = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            take(digit - b'0');
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Option<Value> {
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        if negative && self.bytes[self.at..].starts_with(b"Infinity") {
            self.at += "Infinity".len();
            return Some(Value::Float(f64::NEG_INFINITY));
        }
        let mut whole = Some(0_u64);
        let mut approximate = 0.0_f64;
        let count = self.digits(|digit| {
            whole = whole.and_then(|sum| sum.checked_mul(10)?.checked_add(u64::from(digit)));
            approximate = approximate * 10.0 + f64::from(digit);
        });
        if count == 0 && !negative {
            return None;
        }
        let is_float = matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if !is_float {
            let number = i128::from(whole?);
            let number = if negative { -number } else { number };
            let fits = number >= i128::from(i64::MIN);
            return fits.then(|| Value::from_bigint(number.into()));
        }
        let base = whole.map_or(approximate, |number| number as f64);
        let mut fraction = 0.0_f64;
        let mut decimals = 0;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits(|digit| {
                if decimals < READ_DECIMALS {
                    fraction = fraction * 10.0 + f64::from(digit);
                    decimals += 1;
                }
            });
        }
        const NEGATIVE_POWERS: [f64; 16] = [
            1.0,
            0.1,
            0.01,
            0.001,
            0.0001,
            0.00001,
            0.000001,
            0.0000001,
            0.00000001,
            0.000000001,
            0.0000000001,
            0.00000000001,
            0.000000000001,
            0.0000000000001,
            0.00000000000001,
            0.000000000000001,
        ];
        let magnitude = base + fraction * NEGATIVE_POWERS[decimals as usize];
        let mut number = if negative { -magnitude } else { magnitude };
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            let down = self.peek() == Some(b'-');
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            let mut exponent = 0.0_f64;
            self.digits(|digit| exponent = exponent * 10.0 + f64::from(digit));
            number *= 10_f64.powf(if down { -exponent } else { exponent });
        }
        Some(Value::Float(number))
    }
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::repr::repr;

    use super::*;

    #[test]
    fn decodes_strings_that_are_json() {
        for (text, expected) in [
            ("7", "7"),
            (" 7 ", "7"),
            ("007", "7"),
            ("-", "0"),
            ("1.", "1.0"),
            ("-.5", "-0.5"),
            ("0.3", "0.30000000000000004"),
            ("1.1e-5", "1.1000000000000001e-05"),
            ("NaN", "None"),
            ("-Infinity", "-inf"),
            ("[1, \"a\"]", "[1, 'a']"),
            ("{\"a\":1,\"a\":2}", "{'a': 2}"),
            ("18446744073709551615", "18446744073709551615"),
            ("\"x\"", "'x'"),
        ] {
            assert_eq!(repr(&decode(text).unwrap()), expected, "{text}");
        }
        for text in
            ["", "x", "+7", ".5", "True", "7 8", "[1,]", "'x'", "18446744073709551616", "nul", "\"", "0x1"]
        {
            assert!(decode(text).is_none(), "{text}");
        }
    }

    #[test]
    fn reproduces_loss_of_digits() {
        for (number, text) in [
            (1.0, "1.0"),
            (1e16, "10000000000000000.0"),
            (1e17, "1e+17"),
            (1e-10, "0.0000000001"),
            (1e-11, "0.0"),
            (1e-16, "1e-16"),
            (5e-324, "4.940656458e-324"),
            (2.5e-10, "0.0000000002"),
            (1.5e-10, "0.0000000002"),
            (0.99999999999, "1.0"),
            (123456789012345.6, "123456789012345.59375"),
            (-1.5, "-1.5"),
            (-0.0, "0.0"),
        ] {
            assert_eq!(write_float(number).unwrap(), text);
        }
        assert_eq!(write_float(f64::NAN), None);
    }
}
