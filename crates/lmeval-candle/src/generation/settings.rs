//! The effective generation settings of a request.

use std::sync::Arc;

use lmeval_core::{ModelError, stops};
use lmeval_pycompat::{Dict, Value};

use super::fields::{Defaults, Fields, token};
use super::names::{LIMITS, check, refused};
use crate::arguments::configuration;
use crate::encoder::request;
use crate::engine::{Rules, Sampling};

/// The default maximum number of generated tokens.
const DEFAULT_LIMIT: usize = 256;
/// The default `top_k` of `transformers`.
const DEFAULT_TOP_K: usize = 50;

const USE_MAX_GEN_TOKS: &str = "Use `max_gen_toks` to limit only the answer";

/// The model's side of the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelDefaults<'a> {
    /// Settings in the model's files.
    pub(crate) files: &'a Defaults,
    /// The content of `eos_token`.
    pub(crate) eos_token: Option<&'a str>,
    /// The `max_gen_toks` model argument.
    pub(crate) limit: Option<usize>,
    /// The maximum length of prompt and answer.
    pub(crate) max_length: usize,
}

/// The effective settings of a request.
#[derive(Clone, Debug)]
pub(crate) struct GenerationSettings {
    /// Stop strings.
    pub(crate) stops: Vec<String>,
    /// End tokens.
    pub(crate) ends: Vec<u32>,
    /// Tokens reserved for the answer.
    pub(crate) limit: usize,
    /// The request's `max_length`, which overrides `limit`.
    total: Option<usize>,
    /// The `max_new_tokens` of the model's files, which overrides both.
    allowed: Option<usize>,
    pub(crate) sampling: Sampling,
    /// The request's own seed.
    pub(crate) seed: Option<u64>,
}

impl GenerationSettings {
    /// Reads and validates the settings of a request, as far as possible without its prompt.
    pub(crate) fn read(request: &Dict, model: ModelDefaults<'_>) -> Result<Self, ModelError> {
        let fields = Fields { request, defaults: model.files };
        check(fields)?;
        let limit = match LIMITS.iter().find_map(|name| fields.in_request(name)) {
            None => model.limit.unwrap_or(DEFAULT_LIMIT),
            Some(found) => found.count()?,
        };
        if limit >= model.max_length {
            return Err(configuration(format!(
                "An answer of {limit} tokens leaves no room for a prompt: the model's maximum length is {}",
                model.max_length
            ))
            .hint("Set `max_gen_toks` in `--gen_kwargs`, or `max_length` in `--model_args`"));
        }
        let total = fields.in_request("max_length").map(|found| found.count()).transpose()?;
        if let Some(total) = total.filter(|total| *total > model.max_length) {
            return Err(configuration(format!(
                "The generation setting `max_length` is {total}, but the model's maximum length is {}",
                model.max_length
            ))
            .hint(USE_MAX_GEN_TOKS));
        }
        // Reference: the limit of the model's files overrides the request.
        let allowed = match fields.in_files("max_new_tokens") {
            None => None,
            Some(found) => match found.count()? {
                0 => return Err(found.wrong("a number above 0")),
                count => Some(count),
            },
        };
        let mut ends = fields.tokens("eos_token_id")?;
        ends.sort_unstable();
        ends.dedup();
        let sampling = Sampling { rules: Arc::new(rules(fields, &ends)?), ..sampling(fields)? };
        let seed = fields.in_request("seed").map(|found| found.number()).transpose()?;
        Ok(Self {
            stops: stop_strings(request, model.eos_token)?,
            ends,
            limit,
            total,
            allowed,
            sampling,
            seed: seed.map(|seed| seed as i64 as u64),
        })
    }

    /// The maximum number of tokens that a decoder generates after its first token, for a source of this length.
    pub(crate) fn room_of_decoder(&self, source: usize) -> Result<usize, ModelError> {
        match (self.allowed, self.total) {
            (Some(allowed), _) => Ok(allowed),
            // Reference: the limit is added to the length of the source, and counts the first token.
            (None, None) => Ok((source + self.limit).saturating_sub(1)),
            (None, Some(total)) if total > 1 => Ok(total - 1),
            (None, Some(total)) => Err(request(format!(
                "The generation setting `max_length` is {total}, which the first token of the decoder takes"
            ))
            .hint(USE_MAX_GEN_TOKS)),
        }
    }

    /// The maximum number of tokens generated after a prompt of this length.
    pub(crate) fn room(&self, prompt: usize, max_length: usize) -> Result<usize, ModelError> {
        match (self.allowed, self.total) {
            (Some(allowed), _) => Ok(allowed.min(max_length.saturating_sub(prompt))),
            (None, None) => Ok(self.limit),
            (None, Some(total)) if total > prompt => Ok(total - prompt),
            (None, Some(total)) => Err(request(format!(
                "The generation setting `max_length` is {total}, but the prompt alone has {prompt} tokens"
            ))
            .hint(USE_MAX_GEN_TOKS)),
        }
    }
}

fn stop_strings(request: &Dict, eos_token: Option<&str>) -> Result<Vec<String>, ModelError> {
    let wrong = || {
        configuration("The generation setting `until` must be a string or a list of strings")
            .hint("Set `until` in the task's `generation_kwargs` or in `--gen_kwargs`")
    };
    let stops = stops(request.get_str("until"), eos_token).map_err(|_| wrong())?;
    let stops = stops.iter().map(|stop| stop.as_str().map(str::to_owned).ok_or_else(wrong));
    let mut stops = stops.collect::<Result<Vec<_>, _>>()?;
    stops.retain(|stop| !stop.is_empty());
    Ok(stops)
}

/// Reads sampling settings. Like in `transformers`, ranges are checked only if sampling is on.
fn sampling(fields: Fields<'_>) -> Result<Sampling, ModelError> {
    let asked = fields.in_request("temperature");
    let temperature = asked.map(|found| found.number()).transpose()?;
    if let Some(found) = asked.filter(|_| temperature.is_some_and(|temperature| temperature < 0.0)) {
        return Err(found.wrong("a non-negative number"));
    }
    // Reference: `do_sample` of the model's files is ignored.
    let samples = match fields.in_request("do_sample").map(|found| (found, found.value)) {
        None => temperature.is_some_and(|temperature| temperature > 0.0),
        Some((_, value @ (Value::Bool(_) | Value::Int(_)))) => value.is_truthy(),
        Some((found, _)) => return Err(found.wrong("`True` or `False`")),
    };
    let above_zero = |number: f64| number > 0.0;
    let penalty = fields.number_in("repetition_penalty", "a number above 0", above_zero)?;
    let plain = Sampling { repetition_penalty: penalty.unwrap_or(1.0), ..Sampling::default() };
    if !samples {
        return Ok(plain);
    }
    if let Some(found) = asked.filter(|_| temperature == Some(0.0)) {
        return Err(found
            .wrong("a number above 0 with `do_sample=True`")
            .hint("`do_sample=False` takes the most likely token"));
    }
    if let Some(found) = fields.get("top_h") {
        return Err(refused(found));
    }
    let temperature = fields.number_in("temperature", "a number above 0", above_zero)?;
    let share = |name| fields.number_in(name, "a number from 0 to 1", |share| (0.0..=1.0).contains(&share));
    // Like in `transformers`, a value outside the range switches the cutoff off.
    let cut = |name| fields.number(name).map(|cut| cut.filter(|cut| (0.0..1.0).contains(cut)).unwrap_or(0.0));
    let typical = fields.number_in("typical_p", "a number above 0", above_zero)?;
    let is_off = fields.request.get_str("top_k").is_some_and(Value::is_none);
    Ok(Sampling {
        temperature: temperature.unwrap_or(1.0),
        top_k: fields.count("top_k")?.unwrap_or(if is_off { 0 } else { DEFAULT_TOP_K }),
        top_p: share("top_p")?.unwrap_or(1.0),
        min_p: share("min_p")?.unwrap_or(0.0),
        typical_p: typical.unwrap_or(1.0).min(1.0),
        epsilon_cutoff: cut("epsilon_cutoff")?,
        eta_cutoff: cut("eta_cutoff")?,
        ..plain
    })
}

/// Reads logit processors.
fn rules(fields: Fields<'_>, ends: &[u32]) -> Result<Rules, ModelError> {
    let penalty = "encoder_repetition_penalty";
    let fewest_added = fields.count("min_new_tokens")?;
    // Reference: `min_new_tokens` overrides `min_length`.
    let fewest = fields.count("min_length")?.filter(|_| fewest_added.is_none());
    Ok(Rules {
        biases: biases(fields)?,
        prompt_penalty: fields.number_in(penalty, "a number above 0", |number| number > 0.0)?.unwrap_or(1.0),
        repeated: fields.count("no_repeat_ngram_size")?.unwrap_or(0),
        repeated_prompt: fields.count("encoder_no_repeat_ngram_size")?.unwrap_or(0),
        // Reference: end tokens cannot be forbidden this way.
        forbidden: sequences(fields)?
            .into_iter()
            .filter(|sequence| !matches!(sequence.as_slice(), [token] if ends.contains(token)))
            .collect(),
        fewest: fewest.unwrap_or(0),
        fewest_added: fewest_added.unwrap_or(0),
        forced_begin: fields.token("forced_bos_token_id")?,
        forced_end: fields.tokens("forced_eos_token_id")?,
        decay: decay(fields)?,
        suppressed: fields.tokens("suppress_tokens")?,
        suppressed_first: fields.tokens("begin_suppress_tokens")?,
        ends: ends.to_vec(),
    })
}

/// Parses a non-empty list of token ids.
fn sequence(value: &Value) -> Option<Vec<u32>> {
    value.as_list()?.iter().map(token).collect::<Option<Vec<u32>>>().filter(|tokens| !tokens.is_empty())
}

fn sequences(fields: Fields<'_>) -> Result<Vec<Vec<u32>>, ModelError> {
    let Some(found) = fields.get("bad_words_ids") else { return Ok(Vec::new()) };
    let sequences = found.value.as_list().and_then(|list| list.iter().map(sequence).collect());
    sequences.ok_or_else(|| found.wrong("a list of lists of token ids"))
}

fn biases(fields: Fields<'_>) -> Result<Vec<(Vec<u32>, f32)>, ModelError> {
    let Some(found) = fields.get("sequence_bias") else { return Ok(Vec::new()) };
    let bias = |value: &Value| match value.as_list()? {
        [tokens, bias] => Some((sequence(tokens)?, bias.to_f64()? as f32)),
        _ => None,
    };
    let biases: Option<Vec<(Vec<u32>, f32)>> =
        found.value.as_list().and_then(|list| list.iter().map(bias).collect());
    let biases = biases.ok_or_else(|| found.wrong("a list of pairs: a list of token ids, and a number"))?;
    // Reference: the last bias of a sequence wins.
    let is_last = |index: usize| biases[index + 1..].iter().all(|(tokens, _)| *tokens != biases[index].0);
    Ok((0..biases.len()).filter(|index| is_last(*index)).map(|index| biases[index].clone()).collect())
}

fn decay(fields: Fields<'_>) -> Result<Option<(usize, f64)>, ModelError> {
    let Some(found) = fields.get("exponential_decay_length_penalty") else { return Ok(None) };
    let pair = match found.value.as_list() {
        Some([start, factor]) => {
            start.as_i64().and_then(|start| usize::try_from(start).ok()).zip(factor.to_f64())
        }
        _ => None,
    };
    pair.map(Some).ok_or_else(|| found.wrong("a pair: a token count, and a factor"))
}

#[cfg(test)]
mod tests {
    use lmeval_core::ModelErrorKind;
    use lmeval_pycompat::json;

    use super::*;
    use crate::config::Config;

    fn dict(text: &str) -> Dict {
        json::loads(text).unwrap().as_dict().unwrap().clone()
    }

    fn read_with(request: &str, own: Option<&str>, config: &str) -> Result<GenerationSettings, ModelError> {
        let own = own.map(|text| Config::from_fields(dict(text)));
        let defaults = Defaults::new(own.as_ref(), &Config::from_fields(dict(config)));
        let model =
            ModelDefaults { files: &defaults, eos_token: Some("</s>"), limit: None, max_length: 1000 };
        GenerationSettings::read(&dict(request), model)
    }

    fn read(request: &str) -> Result<GenerationSettings, ModelError> {
        read_with(request, None, "{}")
    }

    #[test]
    fn normalises_settings() {
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
        assert_eq!((other.limit, other.room(4, 1000).unwrap(), other.seed), (256, 5, Some(3)));
        assert!(other.room(9, 1000).unwrap_err().to_string().contains("`max_length` is 9"));
        assert_eq!(read(r#"{"until": ["", "x", "</s>"]}"#).unwrap().stops, ["x", "</s>"]);
    }

    #[test]
    fn model_files_provide_defaults() {
        let file = r#"{"eos_token_id": [2, 5], "top_k": 7, "temperature": 0.5, "repetition_penalty": 1.5,
                       "max_new_tokens": 20, "do_sample": true, "chat_format": "chatml"}"#;
        let config =
            r#"{"eos_token_id": 9, "no_repeat_ngram_size": 3, "text_config": {"suppress_tokens": [4]}}"#;
        let read = |request| read_with(request, Some(file), config).unwrap();
        let greedy = read("{}");
        assert_eq!((greedy.ends.as_slice(), greedy.sampling.temperature), ([2, 5].as_slice(), 0.0));
        assert_eq!(greedy.sampling.repetition_penalty, 1.5);
        assert_eq!(
            (greedy.limit, greedy.room(4, 1000).unwrap(), greedy.room(990, 1000).unwrap()),
            (256, 20, 10)
        );
        assert_eq!(greedy.sampling.rules.repeated, 0);
        // The temperature comes from the model's files if the request has none.
        let drawn = read(r#"{"do_sample": true}"#).sampling;
        assert_eq!((drawn.temperature, drawn.top_k), (0.5, 7));
        let other =
            read(r#"{"do_sample": true, "top_k": null, "repetition_penalty": null, "eos_token_id": 3}"#);
        assert_eq!((other.sampling.top_k, other.sampling.repetition_penalty), (0, 1.0));
        assert_eq!(other.ends, [3]);
        // `config.json` is used if there is no other file.
        let old = read_with("{}", None, config).unwrap();
        assert_eq!((old.ends.as_slice(), old.sampling.rules.repeated), ([9].as_slice(), 3));
        assert_eq!(old.sampling.rules.suppressed, [4]);
        assert!(read_with("{}", Some("{}"), config).unwrap().ends.is_empty());
    }

    #[test]
    fn reads_logit_processors() {
        let request = r#"{"bad_words_ids": [[5], [2], [6, 7]], "eos_token_id": [2, 2], "min_length": 3, "min_new_tokens": 4,
            "sequence_bias": [[[1], 2.0], [[3, 4], -1], [[1], 0.5]], "forced_bos_token_id": 8, "forced_eos_token_id": 9,
            "exponential_decay_length_penalty": [3, 1.5], "suppress_tokens": [1], "begin_suppress_tokens": [2, 3],
            "no_repeat_ngram_size": 2, "encoder_no_repeat_ngram_size": 3, "encoder_repetition_penalty": 1.5}"#;
        let sampling = read(request).unwrap().sampling;
        assert!(!sampling.is_plain());
        let expected = Rules {
            biases: vec![(vec![3, 4], -1.0), (vec![1], 0.5)],
            prompt_penalty: 1.5,
            repeated: 2,
            repeated_prompt: 3,
            forbidden: vec![vec![5], vec![6, 7]],
            fewest: 0,
            fewest_added: 4,
            forced_begin: Some(8),
            forced_end: vec![9],
            decay: Some((3, 1.5)),
            suppressed: vec![1],
            suppressed_first: vec![2, 3],
            ends: vec![2],
        };
        assert_eq!(*sampling.rules, expected);
        assert_eq!(read(r#"{"min_length": 3}"#).unwrap().sampling.rules.fewest, 3);
    }

    #[test]
    fn invalid_settings_fail_the_run() {
        for (text, name) in [
            (r#"{"until": 3}"#, "until"),
            (r#"{"until": [3]}"#, "until"),
            (r#"{"max_gen_toks": -1}"#, "max_gen_toks"),
            (r#"{"max_gen_toks": 1e30}"#, "max_gen_toks` must be a number from 0 to"),
            (r#"{"max_gen_toks": 1000}"#, "leaves no room"),
            (r#"{"temperature": "warm"}"#, "temperature"),
            (r#"{"temperature": -1}"#, "temperature"),
            (r#"{"temperature": 0, "do_sample": true}"#, "temperature"),
            (r#"{"do_sample": "maybe"}"#, "do_sample"),
            (r#"{"repetition_penalty": 0}"#, "repetition_penalty"),
            (r#"{"repetition_penalty": -1.5}"#, "repetition_penalty"),
            (r#"{"temperature": 1, "top_p": 1.5}"#, "top_p"),
            (r#"{"temperature": 1, "min_p": -0.1}"#, "min_p"),
            (r#"{"temperature": 1, "top_k": -1}"#, "top_k"),
            (r#"{"temperature": 1, "typical_p": 0}"#, "typical_p"),
            (r#"{"temperature": 1, "top_h": 0.4}"#, "top_h"),
            (r#"{"num_beams": 4}"#, "num_beams"),
            (r#"{"num_beams": "4"}"#, "num_beams"),
            (r#"{"num_return_sequences": 2}"#, "num_return_sequences"),
            (r#"{"stop_strings": ["x"]}"#, "stop_strings"),
            (r#"{"max_length": -1}"#, "max_length"),
            (r#"{"max_length": 2000}"#, "max_length"),
            (r#"{"seed": "x"}"#, "seed"),
            (r#"{"eos_token_id": "x"}"#, "eos_token_id"),
            (r#"{"suppress_tokens": [1.5]}"#, "suppress_tokens"),
            (r#"{"bad_words_ids": [[]]}"#, "bad_words_ids"),
            (r#"{"sequence_bias": [[1, 2]]}"#, "sequence_bias"),
            (r#"{"exponential_decay_length_penalty": [1]}"#, "exponential_decay_length_penalty"),
            (r#"{"temperatur": 1}"#, "Unknown generation setting `temperatur`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(name), "{text}: {error}");
            assert_eq!(error.kind(), ModelErrorKind::Configuration, "{text}");
        }
        // Sampling settings are not validated for greedy decoding.
        assert!(read(r#"{"top_k": -1, "top_p": 2, "top_h": 0.4}"#).unwrap().sampling.is_plain());
        for (file, expected) in [
            (
                r#"{"top_k": "x"}"#,
                "The field `top_k` of `generation_config.json` must be a number, not `'x'`",
            ),
            (r#"{"eos_token_id": "x"}"#, "The field `eos_token_id` of `generation_config.json` must be"),
            (r#"{"num_beams": 4}"#, "The field `num_beams` of `generation_config.json` is `4`"),
            (r#"{"max_new_tokens": 0}"#, "must be a number above 0"),
        ] {
            let error = read_with(r#"{"temperature": 1.0}"#, Some(file), "{}").unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(read_with(r#"{"num_beams": 1}"#, Some(r#"{"num_beams": 4}"#), "{}").is_ok());
    }
}
