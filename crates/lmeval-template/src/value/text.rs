//! Python's `str` and `repr`.

use std::fmt::Write as _;
use std::sync::Arc;

use lmeval_pycompat::{Value, repr};
use num_bigint::BigInt;

use super::{Items, MAXIMUM_DEPTH, Object, Val, ViewKind};
use crate::error::Error;
use crate::globals::Global;

/// Python's `str`.
pub(crate) fn str_of(value: &Val) -> Result<Arc<str>, Error> {
    if let Val::Str(text) | Val::Markup(text) = value {
        return Ok(text.clone());
    }
    let mut out = String::new();
    write_str(&mut out, value)?;
    Ok(out.into())
}

/// Python's `repr`.
pub(crate) fn repr_of(value: &Val) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(&mut out, value, 0)?;
    Ok(out)
}

/// Appends Python's `str`.
pub(crate) fn write_str(out: &mut String, value: &Val) -> Result<(), Error> {
    match value {
        Val::Undefined(undefined) if undefined.strict => Err(undefined.error()),
        Val::Undefined(_) => Ok(()),
        Val::Str(text) | Val::Markup(text) => {
            out.push_str(text);
            Ok(())
        }
        Val::Date(date) => {
            repr::write_str(out, &Value::Date(*date));
            Ok(())
        }
        Val::DateTime(instant) => {
            repr::write_str(out, &Value::DateTime(**instant));
            Ok(())
        }
        other => write_repr(out, other, 0),
    }
}

/// Appends Python's `repr`.
pub(crate) fn write_repr(out: &mut String, value: &Val, depth: usize) -> Result<(), Error> {
    if depth > MAXIMUM_DEPTH {
        return Err(Error::limit("The value is nested too deeply to print"));
    }
    match value {
        Val::Undefined(_) => out.push_str("Undefined"),
        Val::None => out.push_str("None"),
        Val::Bool(truth) => out.push_str(if *truth { "True" } else { "False" }),
        Val::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Val::Big(number) => {
            if is_int_too_long(number) {
                return Err(Error::value_error("The integer has more than 4300 digits, too many to print"));
            }
            let _ = write!(out, "{number}");
        }
        Val::Float(number) => repr::write_float(out, *number),
        Val::Str(text) => repr::write_str_repr(out, text),
        Val::Markup(text) => {
            out.push_str("Markup(");
            repr::write_str_repr(out, text);
            out.push(')');
        }
        Val::Bytes(bytes) => repr::write_bytes_repr(out, bytes),
        Val::List(Items::Shared(items)) => repr::write_repr(out, &Value::List(items.clone())),
        Val::Tuple(Items::Shared(items)) => repr::write_repr(out, &Value::Tuple(items.clone())),
        Val::List(items) => write_items(out, items.iter(), ('[', ']'), depth)?,
        Val::Tuple(items) => {
            if items.len() == 1 {
                out.push('(');
                for item in items.iter() {
                    write_repr(out, &item, depth + 1)?;
                }
                out.push_str(",)");
            } else {
                write_items(out, items.iter(), ('(', ')'), depth)?;
            }
        }
        Val::Set(items) => repr::write_repr(out, &Value::Set(items.clone())),
        Val::Dict(dict) => {
            out.push('{');
            for (index, (key, value)) in dict.entries().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value, depth + 1)?;
            }
            out.push('}');
        }
        Val::Date(date) => repr::write_repr(out, &Value::Date(*date)),
        Val::DateTime(instant) => repr::write_repr(out, &Value::DateTime(**instant)),
        Val::Media(media) => repr::write_repr(out, &Value::Media(media.clone())),
        Val::Function(function) => repr::write_repr(out, &Value::Function(function.clone())),
        Val::Object(object) => write_object(out, object, depth)?,
    }
    Ok(())
}

fn write_items(
    out: &mut String,
    items: impl Iterator<Item = Val>,
    brackets: (char, char),
    depth: usize,
) -> Result<(), Error> {
    out.push(brackets.0);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_repr(out, &item, depth + 1)?;
    }
    out.push(brackets.1);
    Ok(())
}

fn write_object(out: &mut String, object: &Object, depth: usize) -> Result<(), Error> {
    match object {
        Object::Range { start, stop, step: 1 } => {
            let _ = write!(out, "range({start}, {stop})");
        }
        Object::Range { start, stop, step } => {
            let _ = write!(out, "range({start}, {stop}, {step})");
        }
        Object::View(kind, dict) => {
            out.push_str(object.type_name());
            out.push('(');
            let items = dict.entries().map(|(key, value)| match kind {
                ViewKind::Keys => key,
                ViewKind::Values => value,
                ViewKind::Items => Val::tuple(vec![key, value]),
            });
            write_items(out, items, ('[', ']'), depth + 1)?;
            out.push(')');
        }
        Object::Macro(macro_object) => {
            let _ = write!(out, "<Macro '{}'>", macro_object.definition.name);
        }
        Object::Loop(state) => {
            let index = state.index.get();
            let _ = write!(out, "<LoopContext {index}/{}>", state.length.get().unwrap_or(index));
        }
        Object::Namespace(entries) => {
            out.push_str("<Namespace ");
            let entries = Val::dict(entries.borrow().clone());
            write_repr(out, &entries, depth + 1)?;
            out.push('>');
        }
        Object::Template => out.push_str("<TemplateReference None>"),
        Object::Global(Global::Range) => out.push_str("<class 'range'>"),
        Object::Global(Global::Dict) => out.push_str("<class 'dict'>"),
        // Python prints an address here, which varies.
        other => {
            let _ = write!(out, "<{} object>", other.type_name());
        }
    }
    Ok(())
}

/// Whether Python refuses to print the integer: more than 4300 digits.
fn is_int_too_long(number: &BigInt) -> bool {
    // 4300 digits are 14,284.3 bits; below that there is no need to count.
    number.bits() > 14_284 && number.magnitude().to_string().len() > 4300
}

/// Escapes the characters that are special in HTML.
pub(crate) fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            other => out.push(other),
        }
    }
    out
}
