//! `float(text)`, `int(text)` and `sum`.

use num_bigint::BigInt;

use crate::strings::{decimal_value, is_space};
use crate::value::Value;

/// The maximum number of digits that Python reads into an integer, unless the base is a power of two.
pub const MAX_INTEGER_DIGITS: usize = 4300;

/// `float(text)`: accepts surrounding whitespace, digits of any script, underscores between digits, `inf`, `infinity`
/// and `nan` in any case; correctly rounded. `None` if Python raises `ValueError`.
///
/// ```
/// use lmeval_pycompat::float::parse_float;
///
/// assert_eq!(parse_float(" -1_000.5e-1\n"), Some(-100.05));
/// assert_eq!(parse_float("१.५"), Some(1.5));
/// assert_eq!(parse_float("1__0"), None);
/// ```
pub fn parse_float(text: &str) -> Option<f64> {
    let plain = to_plain_ascii(text)?;
    let (sign, digits) = split_sign(&plain);
    let magnitude = parse_magnitude(digits)?;
    Some(if sign { -magnitude } else { magnitude })
}

/// Replaces foreign digits and whitespace by ASCII ones, and strips; `None` if anything else is not ASCII.
///
/// The separators U+001C to U+001F are whitespace to `str.strip`, but not to `float` and `int`.
fn to_plain_ascii(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        plain.push(match character {
            '\0'..='\x7f' => character,
            _ if is_space(character) => ' ',
            _ => char::from_digit(decimal_value(character)?, 10)?,
        });
    }
    Some(plain.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']).to_owned())
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn parse_magnitude(text: &str) -> Option<f64> {
    if ["inf", "infinity"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Some(f64::INFINITY);
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    // The standard parser rounds correctly, but it also accepts signs and words that are invalid here.
    let known = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-' | b'_');
    if text.starts_with(['+', '-']) || !text.bytes().all(known) {
        return None;
    }
    without_underscores(text)?.parse().ok()
}

/// Removes underscores, each of which must be between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let fits = |at: usize| bytes[at] != b'_' || (is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)));
    (0..bytes.len()).all(fits).then(|| text.replace('_', ""))
}

/// `int(text, base)`: accepts surrounding whitespace, a sign, digits of any script, single underscores between digits,
/// and the prefix of the base. Base 0 reads the base from the prefix. `None` if Python raises `ValueError`, which
/// includes too many digits (see [`MAX_INTEGER_DIGITS`]).
///
/// ```
/// use lmeval_pycompat::{Value, float::parse_int};
///
/// assert_eq!(parse_int(" -0x_ff ", 16), Some(Value::Int(-255)));
/// assert_eq!(parse_int("1_0", 10), Some(Value::Int(10)));
/// assert_eq!(parse_int("010", 0), None);
/// ```
pub fn parse_int(text: &str, base: u32) -> Option<Value> {
    if base != 0 && !(2..=36).contains(&base) {
        return None;
    }
    let plain = to_plain_ascii(text)?;
    let (negative, unsigned) = split_sign(&plain);
    let bytes = unsigned.as_bytes();
    let prefixed = match bytes {
        [b'0', letter, ..] => match letter.to_ascii_lowercase() {
            b'x' => Some(16),
            b'o' => Some(8),
            b'b' => Some(2),
            _ => None,
        },
        _ => None,
    };
    let (digits, radix, only_zero) = match (base, prefixed) {
        (0, Some(radix)) => (&unsigned[2..], radix, false),
        (_, Some(radix)) if radix == base => (&unsigned[2..], radix, false),
        (0, None) => (unsigned, 10, unsigned.starts_with('0')),
        _ => (unsigned, base, false),
    };
    let has_prefix = digits.len() != unsigned.len();
    let digits = if has_prefix { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    let number = parse_digits(digits, radix)?;
    if only_zero && number.is_truthy() {
        return None;
    }
    Some(if negative { negate(number) } else { number })
}

/// Parses an unsigned integer of any size; underscores are allowed between digits only.
pub(crate) fn parse_digits(text: &str, radix: u32) -> Option<Value> {
    let bytes = text.as_bytes();
    let mut count = 0;
    let mut after_digit = false;
    for &byte in bytes {
        let is_digit = char::from(byte).is_digit(radix);
        if !(is_digit || byte == b'_' && after_digit) {
            return None;
        }
        count += usize::from(is_digit);
        after_digit = is_digit;
    }
    if !after_digit || (count > MAX_INTEGER_DIGITS && !radix.is_power_of_two()) {
        return None;
    }
    if count == bytes.len()
        && let Ok(number) = i64::from_str_radix(text, radix)
    {
        return Some(Value::Int(number));
    }
    let digits: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != b'_').collect();
    BigInt::parse_bytes(&digits, radix).map(Value::from_bigint)
}

/// Negates a number; other values are returned unchanged.
pub(crate) fn negate(number: Value) -> Value {
    match number {
        Value::Int(small) => match small.checked_neg() {
            Some(negated) => Value::Int(negated),
            None => Value::from_bigint(-BigInt::from(small)),
        },
        Value::BigInt(big) => Value::from_bigint(-big.as_ref()),
        Value::Float(float) => Value::Float(-float),
        other => other,
    }
}

/// `sum(numbers)` as in CPython 3.11: plain addition from the left.
pub fn sum(numbers: impl IntoIterator<Item = f64>) -> f64 {
    // `Iterator::sum` starts at -0.0; Python starts at 0.
    numbers.into_iter().fold(0.0, |total, number| total + number)
}
