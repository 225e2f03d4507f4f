//! JSON lines on standard output.

use anyhow::Result;
use lmeval_pycompat::{Dict, Value, json, repr};

/// Appends a value as one line of JSON; values JSON cannot express become strings.
pub(crate) fn write(out: &mut String, value: &Value) -> Result<()> {
    let options = json::Options { ensure_ascii: false, ..json::Options::default() };
    json::write(out, &plain(value), &options)?;
    out.push('\n');
    Ok(())
}

/// Replaces keys and values that JSON does not have with strings.
fn plain(value: &Value) -> Value {
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => Value::list(items.iter().map(plain)),
        Value::Dict(dict) => dict
            .iter()
            .map(|(key, value)| {
                let key = match key {
                    Value::Date(_) | Value::DateTime(_) | Value::Bytes(_) | Value::Tuple(_) => {
                        Value::from(repr::str(key))
                    }
                    other => other.clone(),
                };
                (key, plain(value))
            })
            .collect::<Dict>()
            .into(),
        Value::Media(media) => lmeval_media::summary(media),
        Value::Function(function) => Value::from(format!("!function {}", function.reference)),
        Value::Date(_) | Value::DateTime(_) | Value::Bytes(_) => Value::from(repr::str(value)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_yaml_value_can_be_written() {
        let text = "2020-01-01: 1\n1: !!binary aGk=\nf: !function utils.f\ns: !!set {a}\nd: 2020-01-02\n";
        let loader = lmeval_pycompat::yaml::Loader::for_directory("tasks");
        let mut line = String::new();
        write(&mut line, &loader.load(text).unwrap().value).unwrap();
        assert_eq!(
            line,
            "{\"2020-01-01\": 1, \"1\": \"b'hi'\", \"f\": \"!function utils.f\", \"s\": [\"a\"], \"d\": \"2020-01-02\"}\n"
        );
    }
}
