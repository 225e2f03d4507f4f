//! Python values, numbers and long strings as the JSON that browsers read.

use lmeval_core::secrets;
use lmeval_pycompat::{Value, repr};
use serde_json::{Map, Value as Json, json};

/// The largest integer that JavaScript represents exactly.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Characters of a string in lists.
pub(crate) const SHORT: usize = 300;

/// Characters of a string in a list of changed documents.
pub(crate) const MEDIUM: usize = 2_000;

/// Characters of a string of a single document.
pub(crate) const LONG: usize = 100_000;

/// A number. JSON has neither NaN nor infinity; they become strings.
pub fn number(value: f64) -> Json {
    if value.is_nan() {
        return Json::from("NaN");
    }
    if value.is_infinite() {
        return Json::from(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    Json::from(value)
}

/// A number that may be missing.
pub(crate) fn optional(value: Option<f64>) -> Json {
    value.map_or(Json::Null, number)
}

/// A value of a results file. Integers that JavaScript cannot represent become strings.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) if (-SAFE_INTEGER..=SAFE_INTEGER).contains(value) => Json::from(*value),
        Value::Float(value) => number(*value),
        Value::Str(text) => Json::from(secrets::mask_data(text).into_owned()),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => items.iter().map(json).collect(),
        Value::Dict(dict) => Json::Object(
            dict.iter().map(|(key, value)| (repr::str(key), json(value))).collect::<Map<String, Json>>(),
        ),
        other => Json::from(repr::str(other)),
    }
}

/// A string as text: strings as they are, everything else as Python prints it.
pub(crate) fn plain(value: &Value) -> String {
    repr::str(value)
}

/// The beginning of a string, at most `limit` characters, with its whole length. Secrets are masked.
pub fn text(text: &str, limit: usize) -> Json {
    let masked = secrets::mask_data(text);
    match masked.char_indices().nth(limit) {
        Some((end, _)) => {
            let length = limit + masked[end..].chars().count();
            json!({ "text": &masked[..end], "length": length, "cut": true })
        }
        None => json!({ "text": masked, "length": masked.chars().count() }),
    }
}

/// The end of a string, at most `limit` characters: documents with the same few-shot examples differ there.
pub(crate) fn tail(text: &str, limit: usize) -> Json {
    let masked = secrets::mask_data(text);
    let length = masked.chars().count();
    match masked.char_indices().nth(length.saturating_sub(limit)) {
        Some((start, _)) if length > limit => {
            json!({ "text": format!("…{}", &masked[start..]), "length": length, "cut": true })
        }
        _ => json!({ "text": masked, "length": length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        assert_eq!(text("äöü", 2), json!({ "text": "äö", "length": 3, "cut": true }));
        assert_eq!(text("äöü", 3), json!({ "text": "äöü", "length": 3 }));
        assert_eq!(tail("äöü", 2), json!({ "text": "…öü", "length": 3, "cut": true }));
        assert_eq!(tail("", 2), json!({ "text": "", "length": 0 }));
    }

    #[test]
    fn numbers_survive_javascript() {
        assert_eq!(number(f64::NAN), Json::from("NaN"));
        assert_eq!(number(f64::NEG_INFINITY), Json::from("-Infinity"));
        assert_eq!(json(&Value::Int(1 << 60)), Json::from("1152921504606846976"));
        assert_eq!(json(&Value::Int(-7)), Json::from(-7));
    }
}
