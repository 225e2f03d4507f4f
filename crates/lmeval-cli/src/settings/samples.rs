//! `--samples`: document indices for each task.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value, json};

/// Parses the word of the command line: JSON, or a file name that is read later.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    match json::loads(text) {
        Ok(value) => Ok(value),
        Err(error) if text.contains('{') => Err(format!("not JSON: {error}")),
        Err(_) => Ok(Value::str(text)),
    }
}

/// The document indices for each task; `None` for all documents.
pub(crate) fn resolve(value: &Value) -> Result<Option<Dict>> {
    if !value.is_truthy() {
        return Ok(None);
    }
    let value = match value {
        Value::Str(text) => read(text)?,
        other => other.clone(),
    };
    match value {
        Value::Dict(samples) => Ok(Some(Dict::clone(&samples))),
        _ => bail!("`samples` must map each task to a list of indices, as in {{\"arc_easy\": [0, 5]}}"),
    }
}

/// JSON, or the contents of a JSON file.
fn read(text: &str) -> Result<Value> {
    match json::loads(text) {
        Ok(value) => Ok(value),
        // Anything that starts like JSON is meant as JSON; other words are paths.
        Err(error) if text.trim_start().starts_with(['{', '[']) => {
            bail!("`samples` is not valid JSON: {error}")
        }
        Err(_) => {
            let content = fs_err::read_to_string(text).map_err(|error| {
                Diagnostic::cannot_read(Path::new(text), error)
                    .hint("`--samples` is JSON such as `{\"arc_easy\": [0, 5]}`, or the path of a JSON file")
            })?;
            json::loads(&content).map_err(|error| anyhow!("`{text}` is not JSON: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_json_or_a_path() {
        assert!(parse("{\"a\": [1]}").unwrap().as_dict().is_some());
        assert_eq!(parse("file.json").unwrap(), Value::str("file.json"));
        assert_eq!(parse("5").unwrap(), Value::Int(5));
        assert!(parse("{a: 1}").is_err());
        assert!(resolve(&Value::str("no/such/file.json")).is_err());
        assert!(resolve(&Value::Int(5)).is_err());
        assert_eq!(resolve(&Value::dict::<&str>([])).unwrap(), None);
    }
}
