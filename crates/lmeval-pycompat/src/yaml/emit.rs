//! Writes values as YAML that loads as the same values.

use std::fmt::Write;

use crate::repr::{float_repr, repr};
use crate::value::Value;
use crate::yaml::{base64, plain_scalar};

/// Writes a value as a block-style YAML document that [`load`](super::load) reads back as the same value.
///
/// Sets, tuples and byte strings have no plain form; they are written as lists, lists and `!!binary` scalars.
///
/// ```
/// use lmeval_pycompat::{Value, yaml};
///
/// let value = Value::dict([("until", Value::list([Value::from("\n\n")])), ("version", Value::from("1.0"))]);
/// assert_eq!(yaml::emit(&value), "until:\n  - \"\\n\\n\"\nversion: '1.0'\n");
/// ```
pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Dict(_) | Value::List(_) | Value::Tuple(_) | Value::Set(_) if value.is_truthy() => {
            block(&mut out, value, 0);
        }
        _ => {
            scalar(&mut out, value, 0);
            out.push('\n');
        }
    }
    out
}

/// Writes a value after `key:` or `-`, including the line break; `indent` is that of the key.
pub fn emit_after(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Dict(_) if value.is_truthy() => {
            out.push('\n');
            block(out, value, indent + 2);
        }
        Value::List(_) | Value::Tuple(_) | Value::Set(_) if value.is_truthy() => {
            out.push('\n');
            block(out, value, indent + 2);
        }
        _ => {
            out.push(' ');
            scalar(out, value, indent);
            out.push('\n');
        }
    }
}

/// Writes a non-empty container at an indentation.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Dict(dict) => {
            for (key, value) in dict.iter() {
                pad(out, indent);
                scalar_key(out, key, indent);
                out.push(':');
                emit_after(out, value, indent);
            }
        }
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
            for item in items.iter() {
                pad(out, indent);
                out.push('-');
                item_after_dash(out, item, indent);
            }
        }
        _ => {}
    }
}

/// Writes an item after its dash; a mapping starts on the same line.
fn item_after_dash(out: &mut String, item: &Value, indent: usize) {
    match item {
        Value::Dict(dict) if !dict.is_empty() => {
            let mut inner = String::new();
            block(&mut inner, item, indent + 2);
            out.push(' ');
            out.push_str(inner.get(indent + 2..).unwrap_or_default());
        }
        _ => emit_after(out, item, indent),
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a key on one line; a long one needs a question mark.
fn scalar_key(out: &mut String, key: &Value, indent: usize) {
    const LONGEST: usize = 1000;
    let Value::Str(text) = key else {
        return scalar(out, key, indent);
    };
    let mut written = String::new();
    if is_plain(text) {
        written.push_str(text);
    } else {
        quoted(&mut written, text);
    }
    if written.len() > LONGEST {
        out.push_str("? ");
        out.push_str(&written);
        out.push('\n');
        pad(out, indent);
    } else {
        out.push_str(&written);
    }
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(_) | Value::BigInt(_) => out.push_str(&repr(value)),
        Value::Float(number) => out.push_str(&float_text(*number)),
        Value::Str(text) => text_scalar(out, text, indent),
        Value::Bytes(bytes) => {
            out.push_str("!!binary \"");
            out.push_str(&base64::encode(bytes));
            out.push('"');
        }
        Value::List(_) | Value::Tuple(_) | Value::Set(_) => out.push_str("[]"),
        Value::Dict(_) => out.push_str("{}"),
        Value::Date(date) => out.push_str(&date.to_string()),
        Value::DateTime(moment) => out.push_str(&moment.to_string()),
        Value::Media(media) => text_scalar(out, &media.to_string(), indent),
        Value::Function(function) => {
            out.push_str("!function ");
            text_scalar(out, &function.reference, indent);
        }
    }
}

/// Formats a float with a dot, since YAML 1.1 reads it as a string otherwise.
fn float_text(number: f64) -> String {
    let text = float_repr(number);
    match text.as_str() {
        "inf" => ".inf".to_owned(),
        "-inf" => "-.inf".to_owned(),
        "nan" => ".nan".to_owned(),
        _ if text.contains('e') && !text.contains('.') => text.replacen('e', ".0e", 1),
        _ => text,
    }
}

fn text_scalar(out: &mut String, text: &str, indent: usize) {
    if is_plain(text) {
        out.push_str(text);
    } else if is_block(text) {
        let keep = match (text.ends_with("\n\n") || text == "\n", text.ends_with('\n')) {
            (true, _) => "+",
            (false, true) => "",
            (false, false) => "-",
        };
        out.push('|');
        out.push_str(keep);
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            out.push('\n');
            if !line.is_empty() {
                pad(out, indent + 2);
                out.push_str(line);
            }
        }
    } else if !text.contains(|character: char| character.is_control() || !is_printable(character))
        && !text.contains('\'')
    {
        out.push('\'');
        out.push_str(text);
        out.push('\'');
    } else {
        quoted(out, text);
    }
}

/// Whether the string can be written without quotes and is still read as this string.
fn is_plain(text: &str) -> bool {
    let mut characters = text.chars();
    let first =
        characters.next().is_some_and(|first| first.is_alphanumeric() || matches!(first, '_' | '/' | '.'));
    first
        && characters.all(|other| {
            other.is_alphanumeric() || matches!(other, '_' | '/' | '.' | '-' | ' ' | '(' | ')' | '+')
        })
        && !text.ends_with(' ')
        && !text.starts_with("...")
        && matches!(plain_scalar(text), Ok(Value::Str(_)))
}

/// Whether a literal block preserves the string.
fn is_block(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    body.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && body
            .chars()
            .all(|character| character == '\n' || (is_printable(character) && !character.is_control()))
}

fn is_printable(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(character, '\u{2028}' | '\u{2029}')
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other if is_printable(other) => out.push(other),
            other if u32::from(other) <= 0xff => escape(out, format_args!("\\x{:02x}", u32::from(other))),
            other if u32::from(other) <= 0xffff => escape(out, format_args!("\\u{:04x}", u32::from(other))),
            other => escape(out, format_args!("\\U{:08x}", u32::from(other))),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = out.write_fmt(text);
}
