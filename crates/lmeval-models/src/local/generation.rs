//! Generation settings of local models.

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};

/// Names of the token limit; the first one present wins.
const LIMITS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct GenerationSettings {
    /// Strings that end the answer; they are not part of it.
    pub(super) stops: Vec<String>,
    /// Maximum number of tokens.
    pub(super) limit: usize,
    /// 0 is greedy decoding; above 0 tokens are sampled.
    pub(super) temperature: f64,
}

impl GenerationSettings {
    /// The token limit unless the settings name one.
    const DEFAULT_LIMIT: usize = 256;

    /// Reads `until`, the token limit, `temperature` and `do_sample`; other settings are ignored.
    pub(super) fn read(kwargs: &Dict) -> Result<Self, ModelError> {
        let get = |name: &str| kwargs.get_str(name).filter(|value| !value.is_none());
        let stops = match get("until") {
            None => Vec::new(),
            Some(Value::Str(text)) => vec![text.as_ref().to_owned()],
            Some(list @ (Value::List(_) | Value::Tuple(_))) => {
                let stop = |item: &Value| {
                    item.as_str().map(str::to_owned).ok_or_else(|| wrong("until", "a list of strings", list))
                };
                list.as_list().unwrap_or_default().iter().map(stop).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(wrong("until", "a string or a list of strings", other)),
        };
        let limit = match LIMITS.iter().find_map(|name| get(name).map(|value| (*name, value))) {
            None => Self::DEFAULT_LIMIT,
            Some((name, value)) => {
                let number = number(value).filter(|number| *number >= 0.0);
                number.ok_or_else(|| wrong(name, "a non-negative number", value))? as usize
            }
        };
        let temperature = match get("temperature") {
            None => None,
            Some(value) => {
                let number = number(value).filter(|number| *number >= 0.0 && number.is_finite());
                Some(number.ok_or_else(|| wrong("temperature", "a non-negative number", value))?)
            }
        };
        let temperature = match get("do_sample").map(Value::is_truthy) {
            Some(false) => 0.0,
            Some(true) => temperature.unwrap_or(1.0),
            None => temperature.unwrap_or(0.0),
        };
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        Ok(Self { stops, limit, temperature })
    }

    /// Truncates at the first stop string.
    pub(super) fn cut<'text>(&self, text: &'text str) -> &'text str {
        self.stops.iter().fold(text, |text, stop| text.find(stop).map_or(text, |end| &text[..end]))
    }
}

/// Accepts numbers as strings too, because settings come from command lines.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.trim().parse().ok(),
        Value::Bool(_) => None,
        other => other.to_f64(),
    }
    .filter(|number: &f64| !number.is_nan())
}

fn wrong(name: &str, expected: &str, found: &Value) -> ModelError {
    let message = format!("The generation setting `{name}` must be {expected}, not `{}`", repr(found));
    ModelError::new(ModelErrorKind::Request, message)
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn read(text: &str) -> Result<GenerationSettings, ModelError> {
        let value = json::loads(text).unwrap();
        GenerationSettings::read(value.as_dict().unwrap())
    }

    #[test]
    fn normalizes_settings() {
        let settings = |stops: &[&str], limit, temperature| GenerationSettings {
            stops: stops.iter().map(|stop| (*stop).to_owned()).collect(),
            limit,
            temperature,
        };
        assert_eq!(read("{}").unwrap(), settings(&[], 256, 0.0));
        assert_eq!(
            read(r#"{"until": "x", "max_new_tokens": 2, "max_tokens": 3}"#).unwrap(),
            settings(&["x"], 2, 0.0)
        );
        assert_eq!(read(r#"{"until": ["", "y"], "temperature": 0.7}"#).unwrap(), settings(&["y"], 256, 0.7));
        assert_eq!(read(r#"{"do_sample": false, "temperature": 0.7}"#).unwrap(), settings(&[], 256, 0.0));
        assert_eq!(read(r#"{"do_sample": true, "until": null}"#).unwrap(), settings(&[], 256, 1.0));
    }

    #[test]
    fn names_the_wrong_setting() {
        for (text, name) in [
            (r#"{"until": 3}"#, "until"),
            (r#"{"until": [3]}"#, "until"),
            (r#"{"max_gen_toks": -1}"#, "max_gen_toks"),
            (r#"{"max_gen_toks": "many"}"#, "max_gen_toks"),
            (r#"{"temperature": NaN}"#, "temperature"),
            (r#"{"temperature": [1]}"#, "temperature"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(name), "{text}");
        }
    }

    #[test]
    fn truncates_at_the_first_stop_string() {
        let settings = read(r#"{"until": ["\n\n", "b"]}"#).unwrap();
        assert_eq!(settings.cut("a\n\nb"), "a");
        assert_eq!(settings.cut("abc\n\n"), "a");
        assert_eq!(settings.cut("xyz"), "xyz");
    }
}
