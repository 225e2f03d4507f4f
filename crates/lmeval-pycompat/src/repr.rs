//! `repr` and `str`.
//!
//! ```
//! use lmeval_pycompat::{Value, repr};
//!
//! let value = Value::tuple([Value::str("it's"), Value::Float(1e16), Value::None]);
//! assert_eq!(repr::repr(&value), r#"("it's", 1e+16, None)"#);
//! assert_eq!(repr::str(&Value::str("it's")), "it's");
//! ```

use std::fmt::Write as _;

use crate::datetime::{Date, DateTime};
use crate::dict::Dict;
use crate::strings::is_printable;
use crate::value::Value;

/// `repr(value)`.
///
/// Three cases differ, since Python's output depends on addresses, hash seeds or settings: a function is
/// `<function NAME>`, a set keeps insertion order, and integers have no digit limit.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// `str(value)`.
pub fn str(value: &Value) -> String {
    let mut out = String::new();
    write_str(&mut out, value);
    out
}

/// Appends `str(value)`: like [`write_repr`], but strings and dates are written as they are.
pub fn write_str(out: &mut String, value: &Value) {
    match value {
        Value::Str(text) => out.push_str(text),
        Value::Date(date) => write_display(out, date),
        Value::DateTime(moment) => write_display(out, moment),
        _ => write_repr(out, value),
    }
}

/// Appends `repr(value)`.
pub fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::None => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(number) => out.push_str(itoa::Buffer::new().format(*number)),
        Value::BigInt(number) => write_display(out, number),
        Value::Float(number) => write_float(out, *number),
        Value::Str(text) => write_str_repr(out, text),
        Value::Bytes(bytes) => write_bytes_repr(out, bytes),
        Value::List(items) => write_items(out, items, "[", "]"),
        Value::Tuple(items) => write_items(out, items, "(", if items.len() == 1 { ",)" } else { ")" }),
        Value::Set(items) if items.is_empty() => out.push_str("set()"),
        Value::Set(items) => write_items(out, items, "{", "}"),
        Value::Dict(dict) => write_dict(out, dict),
        Value::Date(date) => write_date(out, *date),
        Value::DateTime(moment) => write_datetime(out, *moment),
        Value::Media(media) => write_display(out, media),
        Value::Function(function) => {
            let name = function.split().map_or(function.reference.as_str(), |(_, name)| name);
            out.push_str("<function ");
            out.push_str(name);
            out.push('>');
        }
    }
}

fn write_display(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing into a string cannot fail");
}

fn write_items(out: &mut String, items: &[Value], open: &str, close: &str) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(out, item);
    }
    out.push_str(close);
}

fn write_dict(out: &mut String, dict: &Dict) {
    out.push('{');
    for (index, (key, value)) in dict.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(out, key);
        out.push_str(": ");
        write_repr(out, value);
    }
    out.push('}');
}

/// `repr` of a float: the shortest digits that read back exactly, with an exponent below 1e-4 and from 1e16 on.
pub fn float_repr(number: f64) -> String {
    let mut out = String::new();
    write_float(&mut out, number);
    out
}

/// Appends `repr` of a float.
pub fn write_float(out: &mut String, number: f64) {
    if number.is_nan() {
        return out.push_str("nan");
    }
    if number.is_infinite() {
        return out.push_str(if number > 0.0 { "inf" } else { "-inf" });
    }
    if number.is_sign_negative() {
        out.push('-');
    }
    let magnitude = number.abs();
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(magnitude);
    if let Some((digits, scale)) = even_tie(magnitude, text) {
        return write_digits(out, &digits, digits.len() as i32 - scale);
    }
    let plain = magnitude == 0.0 || (1e-4..1e16).contains(&magnitude);
    let (mantissa, exponent) = match text.split_once('e') {
        None if plain => return out.push_str(text),
        None => (text, 0),
        Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(0)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    write_digits(out, digits.trim_matches('0'), whole.len() as i32 + exponent - leading as i32);
}

/// Appends digits with the decimal point after the first `point` of them (or that far before, if negative).
fn write_digits(out: &mut String, digits: &str, point: i32) {
    let length = digits.len() as i32;
    match point {
        -3..=0 => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
            out.push_str(digits);
        }
        1..=16 if point < length => {
            let (whole, fraction) = digits.split_at(point as usize);
            out.push_str(whole);
            out.push('.');
            out.push_str(fraction);
        }
        1..=16 => {
            out.push_str(digits);
            out.extend(std::iter::repeat_n('0', (point - length) as usize));
            out.push_str(".0");
        }
        _ => {
            let (first, fraction) = digits.split_at(1.min(digits.len()));
            out.push_str(first);
            if !fraction.is_empty() {
                out.push('.');
                out.push_str(fraction);
            }
            let exponent = point - 1;
            let sign = if exponent < 0 { '-' } else { '+' };
            write_display(out, format_args!("e{sign}{:02}", exponent.unsigned_abs()));
        }
    }
}

/// The digits that Python prefers if `text` is one of two shortest forms at the same distance: the even ones. The
/// second value is the number of digits after the decimal point, which may be negative.
fn even_tie(magnitude: f64, text: &str) -> Option<(String, i32)> {
    // magnitude = odd * 2^exponent. A tie means that 2 * magnitude * 10^scale is an odd integer, which leaves one scale
    // to check and few candidates.
    let bits = magnitude.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let field = (bits >> 52) as i32;
    let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
    let zeros = significand.trailing_zeros();
    if significand == 0 {
        return None;
    }
    let odd = significand >> zeros;
    let exponent = field.max(1) - 1075 + zeros as i32;
    let scale = -exponent - 1;
    let doubled = match scale {
        0..=25 => 5_u64.checked_pow(scale as u32)?.checked_mul(odd)?,
        -22..=-1 => {
            let power = 5_u64.pow(scale.unsigned_abs());
            if odd % power != 0 {
                return None;
            }
            odd / power
        }
        _ => return None,
    };
    let (below, above) = (doubled / 2, doubled / 2 + 1);
    let (even, uneven) = if below % 2 == 0 { (below, above) } else { (above, below) };
    let shown = text.split('e').next().unwrap_or(text).bytes().filter(u8::is_ascii_digit);
    let uneven = uneven.to_string();
    // An odd number has no trailing zero, so only the zeros that the notation adds have to be removed.
    let shown: String = shown.map(char::from).collect();
    if shown.trim_matches('0') != uneven {
        return None;
    }
    let reads_back = format!("{even}e{}", -scale).parse() == Ok(magnitude);
    reads_back.then(|| (even.to_string(), scale))
}

/// Appends `repr` of a string: in single quotes, unless it contains single but no double quotes.
pub fn write_str_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.reserve(text.len() + 2);
    out.push(quote);
    let mut written = 0;
    for (at, character) in text.char_indices() {
        if character != quote && character != '\\' && is_printable(character) {
            continue;
        }
        out.push_str(&text[written..at]);
        written = at + character.len_utf8();
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' | '\'' | '"' => {
                out.push('\\');
                out.push(character);
            }
            _ => {
                let code = u32::from(character);
                match code {
                    0..=0xff => write_display(out, format_args!("\\x{code:02x}")),
                    0x100..=0xffff => write_display(out, format_args!("\\u{code:04x}")),
                    _ => write_display(out, format_args!("\\U{code:08x}")),
                }
            }
        }
    }
    out.push_str(&text[written..]);
    out.push(quote);
}

/// Appends `repr` of a byte string.
pub fn write_bytes_repr(out: &mut String, bytes: &[u8]) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    out.push('b');
    out.push(quote);
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            _ if char::from(byte) == quote => {
                out.push('\\');
                out.push(quote);
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write_display(out, format_args!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
}

fn write_date(out: &mut String, date: Date) {
    let (year, month, day) = (date.year(), date.month(), date.day());
    write_display(out, format_args!("datetime.date({year}, {month}, {day})"));
}

fn write_datetime(out: &mut String, moment: DateTime) {
    let (year, month, day) = (moment.date().year(), moment.date().month(), moment.date().day());
    let (hour, minute, second) = moment.time();
    write_display(out, format_args!("datetime.datetime({year}, {month}, {day}, {hour}, {minute}"));
    let microsecond = moment.microsecond();
    if second != 0 || microsecond != 0 {
        write_display(out, format_args!(", {second}"));
    }
    if microsecond != 0 {
        write_display(out, format_args!(", {microsecond}"));
    }
    match moment.offset() {
        None => {}
        Some(0) => out.push_str(", tzinfo=datetime.timezone.utc"),
        Some(offset) => {
            out.push_str(", tzinfo=datetime.timezone(datetime.timedelta(");
            if offset < 0 {
                out.push_str("days=-1, ");
            }
            write_display(out, format_args!("seconds={}))", offset.rem_euclid(86_400)));
        }
    }
    out.push(')');
}
