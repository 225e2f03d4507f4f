//! Python values, numbers and long strings as the JSON that browsers read.

use lmeval_core::secrets;
use lmeval_pycompat::{Value, repr};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

use crate::api::Text;

/// The largest integer that JavaScript represents exactly.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Characters of a string in lists.
pub(crate) const SHORT: usize = 300;

/// Characters of a string in a list of changed documents.
pub(crate) const MEDIUM: usize = 2_000;

/// Characters of a string of a single document.
pub(crate) const LONG: usize = 100_000;

/// A number. JSON has neither NaN nor infinity; they become strings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Num(pub f64);

impl From<Num> for Json {
    fn from(Num(value): Num) -> Self {
        match value {
            f64::INFINITY => Self::from("Infinity"),
            f64::NEG_INFINITY => Self::from("-Infinity"),
            value if value.is_nan() => Self::from("NaN"),
            value => Self::from(value),
        }
    }
}

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Json::from(*self).serialize(serializer)
    }
}

/// A value of a results file. Integers that JavaScript cannot represent become strings.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::None => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) if (-SAFE_INTEGER..=SAFE_INTEGER).contains(value) => Json::from(*value),
        Value::Float(value) => Json::from(Num(*value)),
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

impl Text {
    /// The beginning of a string, at most `limit` characters, with its whole length. Secrets are masked.
    pub fn start_of(text: &str, limit: usize) -> Self {
        let masked = secrets::mask_data(text);
        match masked.char_indices().nth(limit) {
            Some((end, _)) => {
                let length = limit + masked[end..].chars().count();
                Self { text: masked[..end].to_owned(), length, cut: true }
            }
            None => Self { length: masked.chars().count(), text: masked.into_owned(), cut: false },
        }
    }

    /// The end of a string, at most `limit` characters: documents with the same few-shot examples differ there.
    pub(crate) fn end_of(text: &str, limit: usize) -> Self {
        let masked = secrets::mask_data(text);
        let length = masked.chars().count();
        match masked.char_indices().nth(length.saturating_sub(limit)) {
            Some((start, _)) if length > limit => {
                Self { text: format!("…{}", &masked[start..]), length, cut: true }
            }
            _ => Self { text: masked.into_owned(), length, cut: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json as object;

    use super::*;

    #[test]
    fn cuts_between_characters() {
        let text = |text: Text| serde_json::to_value(text).unwrap();
        assert_eq!(text(Text::start_of("äöü", 2)), object!({ "text": "äö", "length": 3, "cut": true }));
        assert_eq!(text(Text::start_of("äöü", 3)), object!({ "text": "äöü", "length": 3 }));
        assert_eq!(text(Text::end_of("äöü", 2)), object!({ "text": "…öü", "length": 3, "cut": true }));
        assert_eq!(text(Text::end_of("", 2)), object!({ "text": "", "length": 0 }));
    }

    #[test]
    fn numbers_survive_javascript() {
        assert_eq!(Json::from(Num(f64::NAN)), Json::from("NaN"));
        assert_eq!(serde_json::to_string(&Num(f64::NEG_INFINITY)).unwrap(), "\"-Infinity\"");
        assert_eq!(json(&Value::Int(1 << 60)), Json::from("1152921504606846976"));
        assert_eq!(json(&Value::Int(-7)), Json::from(-7));
    }
}
