//! Number and string literals, as described by "Literals" in Jinja's template designer documentation. They
//! are Python's: digits may be grouped with `_`, integers may be binary, octal or hexadecimal, and strings
//! have Python's escapes.
//!
//! Every function parses the start of a string and returns the value with its length in bytes.

use std::borrow::Cow;

use lmeval_pycompat::Value;
use num_bigint::BigInt;
use num_traits::Num;

/// The longest decimal integer that Python parses.
const MAXIMUM_DIGITS: usize = 4300;

/// A number at the start of `text`, which starts with a digit.
///
/// After a dot only an integer is read: `a.0.1` is two subscripts.
pub(super) fn number(text: &str, after_dot: bool) -> Result<(Value, usize), &'static str> {
    const MALFORMED: &str = "This is not a number";
    let (radix, prefix, end) = integer(text);
    if !after_dot && radix == 10 {
        let end = float(text);
        if end > 0 {
            let number = without_groups(&text[..end]).parse().map_err(|_| MALFORMED)?;
            return Ok((Value::Float(number), end));
        }
    }
    let digits = without_groups(&text[prefix..end]);
    if let Ok(number) = i64::from_str_radix(&digits, radix) {
        return Ok((Value::Int(number), end));
    }
    if radix == 10 && digits.len() > MAXIMUM_DIGITS {
        return Err("Integers are limited to 4300 digits");
    }
    let number = BigInt::from_str_radix(&digits, radix).map_err(|_| MALFORMED)?;
    Ok((Value::from_bigint(number), end))
}

fn without_groups(digits: &str) -> Cow<'_, str> {
    if digits.contains('_') { Cow::Owned(digits.replace('_', "")) } else { Cow::Borrowed(digits) }
}

/// The end of a run of digits, with single underscores between digits.
fn run(text: &str, is_digit: impl Fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let digit_at = |index: usize| bytes.get(index).copied().is_some_and(&is_digit);
    let mut end = 0;
    loop {
        if digit_at(end) {
            end += 1;
        } else if end > 0 && bytes.get(end) == Some(&b'_') && digit_at(end + 1) {
            end += 2;
        } else {
            return end;
        }
    }
}

fn decimal(text: &str) -> usize {
    run(text, |byte| byte.is_ascii_digit())
}

/// The end of a number with a fraction or an exponent; 0 if it has neither.
fn float(text: &str) -> usize {
    let whole = decimal(text);
    let fraction = match text[whole..].strip_prefix('.').map(decimal) {
        None | Some(0) => 0,
        Some(digits) => 1 + digits,
    };
    let mantissa = whole + fraction;
    let exponent = text[mantissa..].strip_prefix(['e', 'E']).map_or(0, |rest| {
        let sign = usize::from(rest.starts_with(['+', '-']));
        match decimal(&rest[sign..]) {
            0 => 0,
            digits => 1 + sign + digits,
        }
    });
    if fraction + exponent > 0 { mantissa + exponent } else { 0 }
}

/// The radix of an integer, and the range of its digits.
fn integer(text: &str) -> (u32, usize, usize) {
    let bytes = text.as_bytes();
    let radix = match bytes.get(1) {
        Some(b'b' | b'B') => 2,
        Some(b'o' | b'O') => 8,
        Some(b'x' | b'X') => 16,
        _ => 10,
    };
    if bytes.first() == Some(&b'0') {
        let start = if bytes.get(2) == Some(&b'_') { 3 } else { 2 };
        if radix != 10 {
            let digits = run(text.get(start..).unwrap_or_default(), |byte| char::from(byte).is_digit(radix));
            if digits > 0 {
                return (radix, start, start + digits);
            }
        }
        // A number other than zero does not start with a zero.
        return (10, 0, run(text, |byte| byte == b'0'));
    }
    (10, 0, decimal(text))
}

/// A string literal at the start of `text`, which starts with a quote; `None` if it is not closed.
pub(super) fn quoted(text: &str) -> Option<Result<(Cow<'_, str>, usize), String>> {
    let bytes = text.as_bytes();
    let quote = bytes[0];
    let mut escaped = false;
    let mut end = 1;
    loop {
        match *bytes.get(end)? {
            byte if byte == quote => break,
            b'\\' => {
                escaped = true;
                end += 2;
            }
            _ => end += 1,
        }
    }
    let inner = &text[1..end];
    let content = if escaped { unescape(inner).map(Cow::Owned) } else { Ok(Cow::Borrowed(inner)) };
    Some(content.map(|content| (content, end + 1)))
}

/// Replaces Python's escapes; unknown ones stay unchanged.
fn unescape(text: &str) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(backslash) = rest.find('\\') {
        result.push_str(&rest[..backslash]);
        rest = &rest[backslash + 1..];
        let Some(escape) = rest.chars().next() else { break };
        let after = &rest[escape.len_utf8()..];
        let simple = match escape {
            '\n' => {
                rest = after;
                continue;
            }
            '\\' | '\'' | '"' => escape,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' => {
                let length = rest.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                result.push(code_point(&rest[..length], 8, escape)?);
                rest = &rest[length..];
                continue;
            }
            'x' | 'u' | 'U' => {
                let length = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits = after.get(..length).unwrap_or_default();
                result.push(code_point(digits, 16, escape)?);
                rest = &after[length..];
                continue;
            }
            'N' => return Err("Named characters (`\\N{…}`) are not supported".into()),
            other => {
                result.push('\\');
                other
            }
        };
        result.push(simple);
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

fn code_point(digits: &str, radix: u32, escape: char) -> Result<char, String> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(format!("The escape `\\{escape}` needs more digits"));
    }
    let code = u32::from_str_radix(digits, radix).unwrap_or(u32::MAX);
    char::from_u32(code).ok_or_else(|| format!("{digits} is not a code point"))
}
