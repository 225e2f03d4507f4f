//! Generation settings as local models read them.

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};

/// The names of the limit, of which the first that is given counts.
const LIMITS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

/// How a text is generated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GenerationSettings {
    /// Texts before which the answer ends.
    pub(super) stops: Vec<String>,
    /// How many tokens the answer may have.
    pub(super) limit: usize,
    /// 0 takes the most likely token each time; above it tokens are drawn.
    pub(super) temperature: f64,
}

impl GenerationSettings {
    /// Tokens of an answer where nothing else is asked for.
    const DEFAULT_LIMIT: usize = 256;

    /// Reads `until`, the limit of tokens, `temperature` and `do_sample`; other settings mean nothing here.
    pub(super) fn read(kwargs: &Dict) -> Result<Self, ModelError> {
        let get = |name: &str| kwargs.get_str(name).filter(|value| !value.is_none());
        let stops = match get("until") {
            None => Vec::new(),
            Some(Value::Str(text)) => vec![text.as_ref().to_owned()],
            Some(list @ (Value::List(_) | Value::Tuple(_))) => {
                let stop = |item: &Value| {
                    item.as_str().map(str::to_owned).ok_or_else(|| wrong("until", "a list of texts", list))
                };
                list.as_list().unwrap_or_default().iter().map(stop).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(wrong("until", "a text or a list of texts", other)),
        };
        let limit = match LIMITS.iter().find_map(|name| get(name).map(|value| (*name, value))) {
            None => Self::DEFAULT_LIMIT,
            Some((name, value)) => {
                let number = number(value).filter(|number| *number >= 0.0);
                number.ok_or_else(|| wrong(name, "a number that is not negative", value))? as usize
            }
        };
        let temperature = match get("temperature") {
            None => None,
            Some(value) => {
                let number = number(value).filter(|number| *number >= 0.0 && number.is_finite());
                Some(number.ok_or_else(|| wrong("temperature", "a number that is not negative", value))?)
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

    /// The text before the first stop text.
    pub(super) fn cut<'text>(&self, text: &'text str) -> &'text str {
        self.stops.iter().fold(text, |text, stop| text.find(stop).map_or(text, |end| &text[..end]))
    }
}

/// A number, also as text, because settings come from command lines.
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
    fn settings_are_normalised() {
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
    fn wrong_settings_are_named() {
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
    fn an_answer_ends_before_the_first_stop() {
        let settings = read(r#"{"until": ["\n\n", "b"]}"#).unwrap();
        assert_eq!(settings.cut("a\n\nb"), "a");
        assert_eq!(settings.cut("abc\n\n"), "a");
        assert_eq!(settings.cut("xyz"), "xyz");
    }
}
