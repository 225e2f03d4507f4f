//! Parsing the answers of servers.

use std::sync::Arc;

use lmeval_core::{Finish, ModelError, ModelErrorKind, Usage};
use lmeval_pycompat::{Dict, Value, json};

use crate::http::BadAnswer;

/// A malformed answer; the request is retried.
pub(super) fn malformed(problem: impl Into<String>) -> BadAnswer {
    BadAnswer::Retry(problem.into())
}

/// An answer that a retry would not change.
pub(super) fn unusable(problem: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Answer, problem)
}

/// An answer without prompt log-probabilities: retried if the server has returned them before, else fatal.
pub(super) fn no_logprobs(problem: &str) -> BadAnswer {
    let message = format!("The server does not return the log-probabilities of the prompt: {problem}");
    BadAnswer::Incapable(
        ModelError::new(ModelErrorKind::Capability, message)
            .hint(
                "vLLM returns them by default; llama-cpp-python needs `--logits_all true`; \
                 for SGLang use `--model sglang-generate`",
            )
            .hint(
                "Servers that ignore `echo` (llama.cpp's own server, `transformers serve`, chat APIs) \
                 can only run generation tasks",
            ),
    )
}

/// Parses an answer as JSON.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, BadAnswer> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("The answer is not UTF-8"))?;
    json::loads(text).map_err(|error| malformed(format!("The answer is not JSON: {error}")))
}

/// The objects of an answer: one, or a list.
pub(super) fn objects(answer: &Value) -> Result<Vec<&Dict>, BadAnswer> {
    let objects = match answer {
        Value::List(list) => list.iter().map(Value::as_dict).collect(),
        other => other.as_dict().map(|dict| vec![dict]),
    };
    objects.ok_or_else(|| malformed("The answer is not a JSON object"))
}

/// The `choices` of an object, ordered by their `index`.
pub(super) fn choices(object: &Dict) -> Result<Vec<&Dict>, BadAnswer> {
    refuse_error(object)?;
    let list = object.get_str("choices").and_then(Value::as_list).filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| malformed("The answer has no `choices`"))?;
    let mut found = Vec::with_capacity(list.len());
    for (position, choice) in list.iter().enumerate() {
        let choice = choice.as_dict().ok_or_else(|| malformed("A choice of the answer is not an object"))?;
        refuse_error(choice)?;
        refuse_abort(choice.get_str("finish_reason"))?;
        let index = choice.get_str("index").and_then(Value::as_i64);
        found.push((index.unwrap_or(position as i64), choice));
    }
    found.sort_by_key(|(index, _)| *index);
    // A single choice is the answer whatever its index; several must map to prompts unambiguously.
    let is_clear = found.iter().enumerate().all(|(position, (index, _))| *index == position as i64);
    if found.len() > 1 && !is_clear {
        let indices: Vec<String> = found.iter().map(|(index, _)| index.to_string()).collect();
        return Err(malformed(format!("The choices of the answer have the indices {}", indices.join(", "))));
    }
    Ok(found.into_iter().map(|(_, choice)| choice).collect())
}

/// Some servers report errors with a success status.
fn refuse_error(object: &Dict) -> Result<(), BadAnswer> {
    match object.get_str("error").filter(|error| error.is_truthy()) {
        Some(error) => Err(malformed(format!(
            "The server reports an error: {}",
            short(&lmeval_pycompat::repr::str(error))
        ))),
        None => Ok(()),
    }
}

/// Rejects a generation that the server aborted, even if part of it is present.
pub(super) fn refuse_abort(reason: Option<&Value>) -> Result<(), BadAnswer> {
    match reason.and_then(Value::as_str) {
        Some(reason @ ("abort" | "error")) => {
            Err(malformed(format!("The server did not finish the answer: its `finish_reason` is `{reason}`")))
        }
        _ => Ok(()),
    }
}

/// Truncates a string for messages, after masking secrets.
pub(super) fn short(text: &str) -> String {
    let text = &*lmeval_core::secrets::mask(text);
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A string of an object. Null is an error, unless the user has set a replacement.
pub(super) fn text(object: &Dict, name: &str) -> Result<Arc<str>, BadAnswer> {
    match object.get_str(name) {
        Some(Value::Str(text)) => Ok(Arc::clone(text)),
        Some(Value::None) => {
            null_text().ok_or_else(|| malformed(format!("The string `{name}` of the answer is null")))
        }
        _ => Err(malformed(format!("The answer has no string `{name}`"))),
    }
}

/// How a generation ended, by the field with the server's reason.
pub(super) fn finish(answer: &Dict, field: &str) -> Finish {
    answer.get_str(field).and_then(Value::as_str).map_or(Finish::Complete, finish_of)
}

/// What a server's reason means.
pub(super) fn finish_of(reason: &str) -> Finish {
    match reason {
        "length" | "max_tokens" | "model_context_window_exceeded" => Finish::CutOff,
        "content_filter" | "refusal" => Finish::Refused,
        _ => Finish::Complete,
    }
}

/// The token usage of an answer, in OpenAI's or Anthropic's naming.
pub(super) fn usage(answer: &Value) -> Usage {
    let mut total = Usage::default();
    for object in objects(answer).unwrap_or_default() {
        let named = |name: &str| object.get_str(name).and_then(Value::as_dict);
        let Some(counts) = named("usage").or_else(|| named("meta_info")) else { continue };
        let count = |names: [&str; 2]| {
            let count = names.into_iter().find_map(|name| counts.get_str(name)?.as_i64());
            count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        };
        total.prompt_tokens += count(["prompt_tokens", "input_tokens"]);
        total.completion_tokens += count(["completion_tokens", "output_tokens"]);
    }
    total
}

/// One request's share of the usage of a batch; the first takes the remainder.
pub(super) fn share(total: Usage, index: usize, count: usize) -> Usage {
    let count = count.max(1) as u64;
    let part = |number: u64| number / count + if index == 0 { number % count } else { 0 };
    Usage { prompt_tokens: part(total.prompt_tokens), completion_tokens: part(total.completion_tokens) }
}

/// The user's replacement for null answers, if set.
pub(super) fn null_text() -> Option<Arc<str>> {
    std::env::var("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER").ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_usage_across_a_batch() {
        let answer = json::loads(r#"{"usage": {"prompt_tokens": 7, "completion_tokens": 3}}"#).unwrap();
        let total = usage(&answer);
        let parts: Vec<Usage> = (0..3).map(|index| share(total, index, 3)).collect();
        assert_eq!(parts.iter().map(|part| part.prompt_tokens).sum::<u64>(), 7);
        assert_eq!(parts[0].completion_tokens, 1);
    }
}
