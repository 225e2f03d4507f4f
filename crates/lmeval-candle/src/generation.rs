//! Generation settings of requests, and what ends a text.

use lmeval_core::ModelError;
use lmeval_models::{HuggingFaceTokenizer, stops};
use lmeval_pycompat::{Dict, Value, repr};

use crate::arguments::ThinkEnd;
use crate::codec::request;
use crate::config::Config;
use crate::engine::Sampling;

/// The names of the limit, of which the first that is given counts.
const LIMITS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];
/// Settings that are read, or that mean nothing here.
const KNOWN: [&str; 11] = [
    "until",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "use_cache",
    "pad_token_id",
    "max_length",
    "seed",
];
/// Settings that are known with the value 1 alone.
const ONES: [&str; 2] = ["num_beams", "num_return_sequences"];
/// Tokens of an answer where nothing else is asked for.
const DEFAULT_LIMIT: usize = 256;
/// From how many of the most likely tokens is drawn where nothing else is said, as `transformers` does it.
const DEFAULT_TOP_K: usize = 50;

/// What a model's files say about generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    /// Tokens that end a text.
    pub(crate) ends: Vec<u32>,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
}

impl Defaults {
    /// Reads `generation_config.json`, with `config.json` for what it does not say.
    pub(crate) fn read(own: Option<&Config>, config: &Config, end: Option<u32>) -> crate::Result<Self> {
        let token = |value: &Value| value.as_i64().and_then(|token| u32::try_from(token).ok());
        let tokens = |config: &Config| {
            config.get("eos_token_id").map(|value| match value.as_list() {
                Some(list) => list.iter().filter_map(token).collect::<Vec<u32>>(),
                None => token(value).into_iter().collect(),
            })
        };
        let ends =
            own.and_then(tokens).or_else(|| tokens(config)).unwrap_or_else(|| end.into_iter().collect());
        let Some(own) = own else { return Ok(Self { ends, ..Self::default() }) };
        Ok(Self {
            ends,
            top_k: own.optional_size("top_k")?,
            top_p: own.optional_number("top_p")?,
            min_p: own.optional_number("min_p")?,
            repetition_penalty: own.optional_number("repetition_penalty")?,
        })
    }
}

/// How a text is generated.
#[derive(Clone, Debug)]
pub(crate) struct GenerationSettings {
    pub(crate) stops: Vec<String>,
    pub(crate) limit: usize,
    /// How many tokens prompt and answer may have together, where somebody says so; it counts in place of the limit.
    pub(crate) total: Option<usize>,
    pub(crate) sampling: Sampling,
    /// Of the draws of this request, beside the seed of the run.
    pub(crate) seed: Option<u64>,
}

impl GenerationSettings {
    /// Reads the settings of a request.
    pub(crate) fn read(
        kwargs: &Dict,
        defaults: &Defaults,
        end_text: Option<&str>,
        default_limit: Option<usize>,
    ) -> Result<Self, ModelError> {
        let get = |name: &str| kwargs.get_str(name).filter(|value| !value.is_none());
        let number = |name: &str| get(name).map(|value| finite(name, value)).transpose();
        for name in kwargs.keys().filter_map(Value::as_str) {
            let is_one = ONES.contains(&name) && get(name).is_none_or(|value| value.as_i64() == Some(1));
            if !KNOWN.contains(&name) && !LIMITS.contains(&name) && !is_one {
                return Err(request(format!("The generation setting `{name}` is not known here")).hint(
                    "`--model lm_eval:hf` generates through Python, with all settings of `transformers`",
                ));
            }
        }
        let count = |name: &str, value: &Value| {
            let number = finite(name, value)?;
            if number < 0.0 {
                return Err(wrong(name, "a number that is not negative", value));
            }
            Ok(number as usize)
        };
        let limit = match LIMITS.iter().find_map(|name| get(name).map(|value| (*name, value))) {
            None => default_limit.unwrap_or(DEFAULT_LIMIT),
            Some((name, value)) => count(name, value)?,
        };
        let temperature = number("temperature")?.unwrap_or(0.0);
        let draws = get("do_sample").map_or(temperature > 0.0, Value::is_truthy);
        let sampling = Sampling {
            // Reference: `transformers` refuses to draw without a temperature.
            temperature: if !draws {
                0.0
            } else if temperature > 0.0 {
                temperature
            } else {
                1.0
            },
            top_k: number("top_k")?.map(|k| k.max(0.0) as usize).or(defaults.top_k).unwrap_or(DEFAULT_TOP_K),
            top_p: number("top_p")?.or(defaults.top_p).unwrap_or(1.0),
            min_p: number("min_p")?.or(defaults.min_p).unwrap_or(0.0),
            repetition_penalty: number("repetition_penalty")?.or(defaults.repetition_penalty).unwrap_or(1.0),
            seed: 0,
        };
        let stops = stops(kwargs.get_str("until"), end_text)?;
        let text = |stop: &Value| {
            stop.as_str().map(str::to_owned).ok_or_else(|| wrong("until", "a text or a list of texts", stop))
        };
        let stops = stops.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            stops: stops.into_iter().filter(|stop| !stop.is_empty()).collect(),
            limit,
            total: get("max_length").map(|value| count("max_length", value)).transpose()?,
            sampling,
            seed: number("seed")?.map(|seed| seed as i64 as u64),
        })
    }
}

fn finite(name: &str, value: &Value) -> Result<f64, ModelError> {
    let number = match value {
        Value::Str(text) => text.trim().parse().ok(),
        Value::Bool(_) => None,
        other => other.to_f64(),
    };
    number.filter(|number: &f64| number.is_finite()).ok_or_else(|| wrong(name, "a number", value))
}

fn wrong(name: &str, expected: &str, found: &Value) -> ModelError {
    request(format!("The generation setting `{name}` must be {expected}, not `{}`", repr::repr(found)))
}

/// Looks for stop strings at the end of what was generated.
#[derive(Debug)]
pub(crate) struct StopCheck {
    stops: Vec<String>,
    /// How many tokens a stop string may span, and some around it.
    lookback: usize,
}

impl StopCheck {
    /// A check for some stop strings.
    pub(crate) fn new(stops: &[String], tokenizer: &HuggingFaceTokenizer) -> Result<Self, ModelError> {
        let mut longest = 0;
        for stop in stops {
            longest = longest.max(tokenizer.encode(stop, false)?.len());
        }
        Ok(Self { stops: stops.to_vec(), lookback: longest + 2 })
    }

    /// Whether a stop string stands in the last tokens.
    pub(crate) fn is_found(&self, tokens: &[u32], tokenizer: &HuggingFaceTokenizer) -> bool {
        if self.stops.is_empty() {
            return false;
        }
        let tail = &tokens[tokens.len().saturating_sub(self.lookback)..];
        let text = tokenizer.decode(tail).unwrap_or_default();
        self.stops.iter().any(|stop| text.contains(stop.as_str()))
    }
}

/// The text of an answer: without what was thought, up to the first stop string.
pub(crate) fn answer_text(
    tokens: &[u32],
    stops: &[String],
    think_end: Option<&ThinkEnd>,
    thinks_first: bool,
    tokenizer: &HuggingFaceTokenizer,
) -> Result<String, ModelError> {
    let mut tokens = tokens;
    if let Some(ThinkEnd::Token(end)) = think_end
        && let Some(place) = tokens.iter().rposition(|token| token == end)
    {
        tokens = &tokens[place + 1..];
    }
    let mut text = tokenizer.decode_plain(tokens)?;
    if matches!(think_end, Some(ThinkEnd::Token(_))) {
        text.drain(..text.len() - text.trim_start().len());
    }
    let marker = match think_end {
        Some(ThinkEnd::Text(marker)) if !marker.is_empty() => Some(marker.as_str()),
        _ => None,
    };
    let without_thoughts = |text: String| match marker {
        Some(marker) => {
            let rest = text.rsplit(marker).next().unwrap_or_default();
            rest.trim_start().to_owned()
        }
        None => text,
    };
    if thinks_first {
        text = without_thoughts(text);
    }
    for stop in stops {
        if let Some(place) = text.find(stop.as_str()) {
            text.truncate(place);
        }
    }
    Ok(if thinks_first { text } else { without_thoughts(text) })
}

#[cfg(test)]
mod tests {
    use lmeval_pycompat::json;

    use super::*;

    fn read(text: &str) -> Result<GenerationSettings, ModelError> {
        let value = json::loads(text).unwrap();
        GenerationSettings::read(value.as_dict().unwrap(), &Defaults::default(), Some("</s>"), None)
    }

    #[test]
    fn settings_are_normalised() {
        let plain = read("{}").unwrap();
        assert_eq!((plain.limit, plain.stops.as_slice()), (256, ["</s>".to_owned()].as_slice()));
        assert!(plain.sampling.is_plain());
        let drawn =
            read(r#"{"temperature": 0.7, "top_p": "0.9", "max_new_tokens": 2, "max_tokens": 3}"#).unwrap();
        assert_eq!((drawn.limit, drawn.sampling.temperature, drawn.sampling.top_p), (2, 0.7, 0.9));
        assert_eq!(drawn.sampling.top_k, 50);
        assert!(read(r#"{"do_sample": false, "temperature": 0.7}"#).unwrap().sampling.is_plain());
        let other =
            read(r#"{"max_length": 9, "seed": 3, "num_return_sequences": 1, "num_beams": null}"#).unwrap();
        assert_eq!((other.limit, other.total, other.seed), (256, Some(9), Some(3)));
        assert_eq!(read(r#"{"until": ["", "x", "</s>"]}"#).unwrap().stops, ["x", "</s>"]);
    }

    #[test]
    fn wrong_settings_are_named() {
        for (text, name) in [
            (r#"{"until": 3}"#, "until"),
            (r#"{"until": [3]}"#, "until"),
            (r#"{"max_gen_toks": -1}"#, "max_gen_toks"),
            (r#"{"temperature": "warm"}"#, "temperature"),
            (r#"{"num_beams": 4}"#, "num_beams"),
            (r#"{"num_return_sequences": 2}"#, "num_return_sequences"),
            (r#"{"max_length": -1}"#, "max_length"),
            (r#"{"seed": "x"}"#, "seed"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(name), "{text}");
        }
    }
}
