//! `local-completions`: OpenAI-compatible completions.

use lmeval_core::{ModelError, ModelErrorKind, RequestType};
use lmeval_pycompat::{Dict, Value, float};

use super::answer::{choices, finish, malformed, no_logprobs, objects, text, unusable};
use super::arguments::{Backend, Credentials};
use super::protocol::{Family, Generation, Prompt, Protocol, Rules, Score, Scored};
use crate::http::BadAnswer;

pub(crate) const LOCAL_COMPLETIONS: Backend = Backend {
    name: "local-completions",
    base_url: None,
    tokenizer: "auto",
    credentials: Credentials::Bearer("OPENAI_API_KEY"),
    is_hosted: false,
    make: |_| Ok(Box::new(LOCAL)),
};

/// The protocol of `/v1/completions`.
#[derive(Debug)]
pub(super) struct Completions {
    /// If set, the only models that return prompt log-probabilities.
    pub(super) models_with_logprobs: Option<&'static [&'static str]>,
    /// Whether the run starts the servers.
    pub(super) is_launched: bool,
}

/// The protocol of `local-completions`.
pub(super) const LOCAL: Completions = Completions { models_with_logprobs: None, is_launched: false };

/// The error for a request type that needs a tokenizer.
pub(super) fn needs_tokenizer(kind: RequestType) -> ModelError {
    let message = format!("`{kind}` requests need a tokenizer, but none is configured");
    ModelError::new(ModelErrorKind::Unsupported, message)
        .hint("Use `tokenizer_backend=huggingface` with `tokenizer=<name or folder>`, or `tokenizer_backend=remote`")
}

/// The token limit: `max_tokens`, else `max_gen_toks`, else the model's default.
pub(super) fn take_limit(settings: &mut Dict, rules: &Rules) -> Value {
    let limit = settings.remove_str("max_tokens").or_else(|| settings.remove_str("max_gen_toks"));
    limit.unwrap_or(Value::Int(rules.max_gen_toks))
}

impl Protocol for Completions {
    fn can_stream(&self) -> bool {
        true
    }

    fn is_launched(&self) -> bool {
        self.is_launched
    }

    fn family(&self) -> Family {
        if self.models_with_logprobs.is_some() { Family::Other } else { Family::Vllm }
    }

    fn supports(&self, kind: RequestType, rules: &Rules, _: bool) -> Result<(), ModelError> {
        let Some(models) = self.models_with_logprobs.filter(|_| kind == RequestType::Loglikelihood) else {
            return Ok(());
        };
        if rules.model.as_deref().is_some_and(|model| models.contains(&model)) {
            return Ok(());
        }
        let names = models.join("`, `");
        let message = format!("OpenAI returns prompt log-probabilities only for the models `{names}`");
        Err(ModelError::new(ModelErrorKind::Unsupported, message).hint(
            "Use one of them, `local-completions` with your own server, or a generation variant of the task",
        ))
    }

    fn generation(&self, prompt: &Prompt, mut settings: Dict, rules: &Rules) -> Result<Dict, ModelError> {
        settings.remove_str("do_sample");
        let mut body = Dict::new();
        body.insert("prompt", prompt.to_value());
        body.insert("model", rules.model_value());
        body.insert("max_tokens", take_limit(&mut settings, rules));
        body.insert("temperature", settings.remove_str("temperature").unwrap_or(Value::Int(0)));
        let until = settings.remove_str("until");
        body.insert("stop", Value::list(rules.stops(until.as_ref(), self.is_launched)?));
        body.insert("seed", rules.seed);
        body.update(&settings);
        Ok(body)
    }

    fn read_generations(&self, answer: &Value, _: &Rules) -> Result<Vec<Generation>, BadAnswer> {
        let mut found = Vec::new();
        for object in objects(answer)? {
            for choice in choices(object)? {
                found.push(Generation::new(text(choice, "text")?, finish(choice, "finish_reason")));
            }
        }
        Ok(found)
    }

    fn scoring(&self, prompt: &Prompt, rules: &Rules) -> Result<Dict, ModelError> {
        let mut body = Dict::new();
        body.insert("model", rules.model_value());
        body.insert("prompt", prompt.to_value());
        body.insert("temperature", 0);
        body.insert("max_tokens", 1);
        body.insert("logprobs", 1);
        body.insert("seed", rules.seed);
        body.insert("echo", true);
        Ok(body)
    }

    fn read_scores(&self, answer: &Value, scored: &[Scored], rules: &Rules) -> Result<Vec<Score>, BadAnswer> {
        let mut found = Vec::new();
        for object in objects(answer)? {
            found.extend(choices(object)?);
        }
        if found.len() != scored.len() {
            let problem = format!("the server returned {} choices for {} prompts", found.len(), scored.len());
            return Err(malformed(problem));
        }
        found.into_iter().zip(scored).map(|(choice, scored)| score(choice, scored, rules)).collect()
    }
}

/// Sums the log-probabilities of the continuation, without those of the context and the generated token.
fn score(choice: &Dict, scored: &Scored, rules: &Rules) -> Result<Score, BadAnswer> {
    let Some(logprobs) = choice.get_str("logprobs").and_then(Value::as_dict) else {
        return Err(no_logprobs("`logprobs` is missing"));
    };
    let list = |name: &str| logprobs.get_str(name).and_then(Value::as_list);
    let Some(all) = list("token_logprobs").filter(|all| !all.is_empty()) else {
        return Err(no_logprobs("`token_logprobs` is missing"));
    };
    let Some(top) = list("top_logprobs") else {
        return Err(no_logprobs("`top_logprobs` is missing"));
    };
    let first = list("tokens").and_then(|tokens| tokens.first()?.as_str());
    let ends_there = choice.get_str("finish_reason").and_then(Value::as_str) == Some("stop");
    let (start, end) = range(all.len(), scored, first, ends_there, rules)?;
    if top.len() < end {
        return Err(no_logprobs("`top_logprobs` has too few entries"));
    }
    let mut numbers = Vec::with_capacity(end - start);
    for value in &all[start..end] {
        numbers.push(
            value.to_f64().ok_or_else(|| malformed("A log-probability of the continuation is missing"))?,
        );
    }
    let mut is_greedy = true;
    for (number, top) in numbers.iter().zip(top.iter().take(end).skip(start)) {
        let best = top.as_dict().and_then(largest);
        let best =
            best.ok_or_else(|| malformed("The log-probabilities of the most likely tokens are missing"))?;
        if *number != best {
            is_greedy = false;
            break;
        }
    }
    Ok((float::sum(numbers), is_greedy))
}

/// The range of the continuation among `count` log-probabilities.
pub(super) fn range(
    count: usize,
    scored: &Scored,
    first: Option<&str>,
    ends_there: bool,
    rules: &Rules,
) -> Result<(usize, usize), BadAnswer> {
    let (sent, context) = (scored.tokens.len(), scored.context);
    if count == sent + 1 {
        return Ok((context, sent));
    }
    if count < sent {
        // One or two log-probabilities belong to the generated tokens.
        let problem = format!("the server returned {count} for a prompt of {sent} tokens");
        let is_echo = scored.text.is_some() && count > 2;
        return Err(if is_echo {
            BadAnswer::Final(other_tokenizer(count, sent))
        } else {
            no_logprobs(&problem)
        });
    }
    let Some(text) = &scored.text else {
        // Some servers omit the generated token if it is the end-of-text token.
        return if count == sent {
            Ok((context, sent))
        } else {
            let problem = format!(
                "The server returned {count} log-probabilities for {sent} tokens and one generated token"
            );
            Err(BadAnswer::Final(unusable(problem)))
        };
    };
    if rules.is_v04() {
        // Reference: the range follows the local tokenizer, whatever the server counts.
        return Ok((context.min(count - 1), count - 1));
    }
    let begins_text = first.is_some_and(|first| first.is_empty() || !text.starts_with(first));
    if count == sent && ends_there {
        // The generated token is omitted if it is the end-of-text token.
        return Ok((context, sent));
    }
    if count == sent + 2 && begins_text {
        return Ok((context + 1, count - 1));
    }
    Err(BadAnswer::Final(other_tokenizer(count.saturating_sub(1), sent)))
}

fn other_tokenizer(server: usize, here: usize) -> ModelError {
    unusable(format!(
        "The server counts {server} tokens but the local tokenizer {here}: they are different tokenizers"
    ))
    .hint("Set `tokenizer=<name or folder>` to the server's tokenizer, or send tokens")
}

/// `max(values)` with Python's comparison rules.
fn largest(values: &Dict) -> Option<f64> {
    let mut largest = None;
    for value in values.values() {
        let value = value.to_f64()?;
        if largest.is_none_or(|largest| value > largest) {
            largest = Some(value);
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use lmeval_core::Dialect;
    use lmeval_pycompat::json;

    use super::*;

    fn rules(dialect: Dialect) -> Rules {
        Rules {
            model: None,
            max_gen_toks: 256,
            seed: 1234,
            end_of_text: None,
            think_end_token: None,
            truncation: super::super::truncation::Side::Left,
            dialect,
        }
    }

    /// A prompt of three tokens, the first of which is the context.
    fn scored(text: Option<&str>) -> Scored {
        Scored { text: text.map(Into::into), ..Scored::new(vec![5, 6, 7], 1) }
    }

    #[test]
    fn finds_the_range_of_the_continuation() {
        let found =
            |count, text, first, dialect| range(count, &scored(text), first, false, &rules(dialect)).ok();
        for dialect in Dialect::ALL {
            assert_eq!(found(4, None, None, dialect), Some((1, 3)));
            assert_eq!(found(4, Some("abc"), Some("a"), dialect), Some((1, 3)));
            // Without the generated token.
            assert_eq!(found(3, None, None, dialect), Some((1, 3)));
            assert_eq!(found(5, None, None, dialect), None);
            assert_eq!(found(1, None, None, dialect), None);
            assert_eq!(found(1, Some("abc"), None, dialect), None);
        }
        // The server prepends a token.
        assert_eq!(found(5, Some("abc"), Some("<s>"), Dialect::V05), Some((2, 4)));
        assert_eq!(found(5, Some("abc"), Some("a"), Dialect::V05), None);
        assert_eq!(found(5, Some("abc"), Some("<s>"), Dialect::V04), Some((1, 4)));
        // If the model would stop here, the generated token is omitted; otherwise a prompt token is missing.
        let of_end = |ends| range(3, &scored(Some("abc")), Some("a"), ends, &rules(Dialect::V05)).ok();
        assert_eq!(of_end(true), Some((1, 3)));
        assert_eq!(of_end(false), None);
    }

    #[test]
    fn greedy_means_equal_to_the_largest_logprob() {
        let choice = |top: &str| {
            let text = format!(
                r#"{{"logprobs": {{"token_logprobs": [null, -1, -2.5, -9], "top_logprobs": [null, {{"a": -1}}, {top}, null]}}}}"#
            );
            score(json::loads(&text).unwrap().as_dict().unwrap(), &scored(None), &rules(Dialect::V05)).ok()
        };
        assert_eq!(choice(r#"{"b": -2.5, "c": -3}"#), Some((-3.5, true)));
        assert_eq!(choice(r#"{"c": -2.4, "b": -2.5}"#), Some((-3.5, false)));
        assert_eq!(choice(r#"{"c": -2.5, "b": -2.5}"#), Some((-3.5, true)));
        assert_eq!(choice("{}"), None);
        assert_eq!(choice("null"), None);
    }
}
