//! Integers and floats as PyYAML's constructors read them, with and without tags.

use num_bigint::BigInt;
use num_traits::Num;
use unicode_general_category::{GeneralCategory, get_general_category};

use crate::repr::repr;
use crate::value::Value;

/// The maximum number of digits in a decimal integer, as in CPython.
const DECIMAL_DIGITS: usize = 4300;
/// The maximum number of parts in a sexagesimal integer, since reading one takes quadratic time.
const SEXAGESIMAL_PARTS: usize = 10_000;
/// From this power of 60 on, the value exceeds the range of floats.
const FLOAT_POWERS: usize = 174;

/// Splits off the sign, and removes underscores.
fn split_sign(text: &str) -> (bool, String) {
    let mut text = text.replace('_', "");
    let negative = text.starts_with('-');
    if text.starts_with(['-', '+']) {
        text.remove(0);
    }
    (negative, text)
}

/// The value of an `!!int` scalar.
pub(super) fn integer(text: &str) -> Result<Value, String> {
    let (negative, body) = split_sign(text);
    let number = if let Some(digits) = body.strip_prefix("0b") {
        parse_integer(digits, 2)?
    } else if let Some(digits) = body.strip_prefix("0x") {
        parse_integer(digits, 16)?
    } else if body.starts_with('0') && body != "0" {
        parse_integer(&body, 8)?
    } else if body.contains(':') {
        sexagesimal_integer(&body)?
    } else {
        parse_integer(&body, 10)?
    };
    Ok(match number {
        Value::Int(number) if negative => match number.checked_neg() {
            Some(number) => Value::Int(number),
            None => Value::from_bigint(-BigInt::from(number)),
        },
        Value::BigInt(number) if negative => Value::from_bigint(-&*number),
        number => number,
    })
}

fn sexagesimal_integer(text: &str) -> Result<Value, String> {
    let mut sum = BigInt::ZERO;
    for (index, part) in text.split(':').enumerate() {
        if index >= SEXAGESIMAL_PARTS {
            return Err(format!("sexagesimal number of more than {SEXAGESIMAL_PARTS} parts"));
        }
        sum = sum * 60 + to_bigint(&parse_integer(part, 10)?);
    }
    Ok(Value::from_bigint(sum))
}

fn to_bigint(value: &Value) -> BigInt {
    match value {
        Value::BigInt(number) => (**number).clone(),
        other => other.as_i64().unwrap_or_default().into(),
    }
}

/// Python's `int(text, base)` for a string without underscores.
fn parse_integer(text: &str, base: u32) -> Result<Value, String> {
    let invalid = || format!("not an integer in base {base}: {}", shortened(text));
    let plain = plain_digits(text);
    let trimmed = plain.trim_matches(' ');
    let (negative, mut digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let prefixes = match base {
        2 => ["0b", "0B"],
        8 => ["0o", "0O"],
        16 => ["0x", "0X"],
        _ => ["", ""],
    };
    for prefix in prefixes {
        if !prefix.is_empty() && digits.starts_with(prefix) {
            digits = &digits[2..];
            break;
        }
    }
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(invalid());
    }
    if let Ok(number) = i64::from_str_radix(digits, base) {
        return Ok(Value::Int(if negative { -number } else { number }));
    }
    if base == 10 && digits.len() > DECIMAL_DIGITS {
        return Err(format!("integer of more than {DECIMAL_DIGITS} digits"));
    }
    let number = BigInt::from_str_radix(digits, base).map_err(|_| invalid())?;
    Ok(Value::from_bigint(if negative { -number } else { number }))
}

/// The value of a `!!float` scalar.
pub(super) fn float(text: &str) -> Result<f64, String> {
    let (negative, body) = split_sign(&text.to_lowercase());
    let sign = if negative { -1.0 } else { 1.0 };
    match body.as_str() {
        ".inf" => Ok(sign * f64::INFINITY),
        ".nan" => Ok(f64::NAN),
        _ if body.contains(':') => Ok(sign * sexagesimal_float(&body)?),
        _ => Ok(sign * parse_float(&body)?),
    }
}

fn sexagesimal_float(text: &str) -> Result<f64, String> {
    let mut sum = 0.0;
    let mut base = BigInt::from(1);
    for (power, part) in text.rsplit(':').enumerate() {
        if power >= FLOAT_POWERS {
            return Err("sexagesimal number too large for a float".to_owned());
        }
        // Python multiplies by the power as a correctly rounded float; parsing its decimal digits rounds correctly,
        // too.
        let scale: f64 = base.to_string().parse().unwrap_or(f64::INFINITY);
        sum += parse_float(part)? * scale;
        base *= 60;
    }
    Ok(sum)
}

/// Python's `float(text)` for a string without underscores.
fn parse_float(text: &str) -> Result<f64, String> {
    let plain = plain_digits(text);
    let trimmed = plain.trim_matches(' ');
    trimmed.parse().map_err(|_| format!("not a float: {}", shortened(text)))
}

/// Quotes a string for a message: on one line, in backticks, truncated if it is long.
pub(super) fn shortened(text: &str) -> String {
    let plain = |text: &str| {
        let quoted = repr(&Value::str(text));
        quoted[1..quoted.len() - 1].to_owned()
    };
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("`{}…`", plain(&text[..end])),
        None => format!("`{}`", plain(text)),
    }
}

/// Replaces digits of other scripts by ASCII ones and all whitespace by spaces, as `int` and `float` see them.
fn plain_digits(text: &str) -> String {
    let plain = |character: char| match character {
        character if character.is_whitespace() || ('\x1c'..='\x1f').contains(&character) => ' ',
        character if character.is_ascii() => character,
        character => decimal_digit(character).unwrap_or(character),
    };
    text.chars().map(plain).collect()
}

fn decimal_digit(character: char) -> Option<char> {
    let is_digit = |code: u32| {
        char::from_u32(code).is_some_and(|c| get_general_category(c) == GeneralCategory::DecimalNumber)
    };
    let code = u32::from(character);
    if !is_digit(code) {
        return None;
    }
    // Decimal digits come in runs that start with a zero.
    let start = (0..=code).rev().take_while(|code| is_digit(*code)).last()?;
    char::from_digit((code - start) % 10, 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_integers_parse_as_in_python() {
        for (text, number) in [
            ("0o17", 15),
            (" 12 ", 12),
            ("0b0b1", 1),
            ("--1", 1),
            ("\u{0663}", 3),
            ("-9223372036854775808", i64::MIN),
            ("1:0:0", 3600),
            ("-0x_f", -15),
        ] {
            assert_eq!(integer(text), Ok(Value::Int(number)), "{text}");
        }
        for wrong in ["", "-", "0b", "0x_", "1.5", "08", "1:", "0x-", "twelve"] {
            assert!(integer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn integers_are_exact_up_to_the_digit_limit() {
        let digits = "9".repeat(DECIMAL_DIGITS);
        let Ok(Value::BigInt(number)) = integer(&digits) else {
            panic!("not a big integer");
        };
        assert_eq!(number.to_string(), digits);
        assert!(integer(&format!("{digits}9")).is_err());
        assert!(integer(&format!("0x{}", "f".repeat(10_000))).is_ok());
    }

    #[test]
    fn tagged_floats_parse_as_in_python() {
        for (text, number) in
            [("1e5", 1e5), ("-.INF", f64::NEG_INFINITY), ("1:30.5", 90.5), ("infinity", f64::INFINITY)]
        {
            assert_eq!(float(text), Ok(number), "{text}");
        }
        assert!(float("nan").is_ok_and(f64::is_nan));
        for wrong in ["", "-", ".", "e5", "1:x", "\u{e9}"] {
            assert!(float(wrong).is_err(), "{wrong}");
        }
        assert!(float(&format!("1{}.5", ":00".repeat(173))).is_ok());
        assert!(float(&format!("1{}.5", ":00".repeat(174))).is_err());
    }
}
