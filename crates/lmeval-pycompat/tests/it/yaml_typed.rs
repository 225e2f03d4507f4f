//! The typed form: a value as one line of JSON that preserves its exact types.
//!
//! `tests/record/yaml_typed.py` writes the same form, byte for byte, so the two can be compared as strings.
//!
//! | value | form |
//! |---|---|
//! | `None`, `bool`, `int` | `null`, `true` or `false`, the decimal digits |
//! | `float` | `{"float":"<16 hexadecimal digits of the IEEE 754 bits>"}`, or `{"float":"nan"}` |
//! | `str` | a JSON string with everything outside printable ASCII escaped |
//! | `bytes` | `{"bytes":"<hexadecimal>"}` |
//! | `list` | `[item,item]` |
//! | `tuple` | `{"tuple":[item,item]}` |
//! | `set` | `{"set":[item,item]}`, sorted by the items' own forms |
//! | `dict` | `{"dict":[[key,value],[key,value]]}` in order |
//! | `date`, `datetime` | `{"date":"2001-12-14"}`, `{"datetime":"2001-12-14 21:59:43+00:00"}`, as `str` writes them |
//! | `!function` | `{"function":"utils.process_docs"}` |

use std::fmt::Write;

use lmeval_pycompat::Value;

/// Formats a value in typed form.
pub(crate) fn typed(value: &Value) -> String {
    let mut out = String::new();
    write_typed(value, &mut out);
    out
}

fn write_typed(value: &Value, out: &mut String) {
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => put(out, format_args!("{number}")),
        Value::BigInt(number) => put(out, format_args!("{number}")),
        Value::Float(number) if number.is_nan() => out.push_str(r#"{"float":"nan"}"#),
        Value::Float(number) => put(out, format_args!(r#"{{"float":"{:016x}"}}"#, number.to_bits())),
        Value::Str(text) => write_string(text, out),
        // No YAML has files.
        Value::Media(media) => put(out, format_args!("{media}")),
        Value::Bytes(bytes) => {
            out.push_str(r#"{"bytes":""#);
            for byte in bytes.iter() {
                put(out, format_args!("{byte:02x}"));
            }
            out.push_str("\"}");
        }
        Value::List(items) => write_items(items.iter().map(typed), out),
        Value::Tuple(items) => {
            out.push_str(r#"{"tuple":"#);
            write_items(items.iter().map(typed), out);
            out.push('}');
        }
        Value::Set(items) => {
            let mut forms: Vec<String> = items.iter().map(typed).collect();
            forms.sort();
            out.push_str(r#"{"set":"#);
            write_items(forms.into_iter(), out);
            out.push('}');
        }
        Value::Dict(dict) => {
            out.push_str(r#"{"dict":"#);
            write_items(dict.iter().map(|(key, value)| format!("[{},{}]", typed(key), typed(value))), out);
            out.push('}');
        }
        Value::Date(date) => put(out, format_args!(r#"{{"date":"{date}"}}"#)),
        Value::DateTime(moment) => put(out, format_args!(r#"{{"datetime":"{moment}"}}"#)),
        Value::Function(function) => {
            out.push_str(r#"{"function":"#);
            write_string(&function.reference, out);
            out.push('}');
        }
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing into a string cannot fail");
}

fn write_items(forms: impl Iterator<Item = String>, out: &mut String) {
    out.push('[');
    for (index, form) in forms.enumerate() {
        if index != 0 {
            out.push(',');
        }
        out.push_str(&form);
    }
    out.push(']');
}

/// A JSON string as `json.dumps` writes it by default.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    put(out, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}
