//! JSON lines on standard output.

use anyhow::Result;
use lmeval_pycompat::{Value, json, repr};

/// Appends a value as one line of JSON; what JSON has no form for becomes its text.
pub(crate) fn write(out: &mut String, value: &Value) -> Result<()> {
    let options = json::Options {
        ensure_ascii: false,
        default: Some(&|value| Some(text_form(value))),
        ..Default::default()
    };
    json::write(out, value, &options)?;
    out.push('\n');
    Ok(())
}

fn text_form(value: &Value) -> Value {
    match value {
        Value::Function(function) => Value::from(format!("!function {}", function.reference)),
        Value::Set(items) => Value::List(items.clone()),
        other => Value::from(repr::str(other)),
    }
}
