//! Reading answers of servers.

use std::sync::Arc;

use lmeval_core::{ModelError, ModelErrorKind, Usage};
use lmeval_pycompat::{Dict, Value, json, strings};

use crate::http::BadAnswer;

/// An answer that is not what it should be: it is asked for again.
pub(super) fn malformed(problem: impl Into<String>) -> BadAnswer {
    BadAnswer::Retry(problem.into())
}

/// An answer that would be the same however often it is asked for.
pub(super) fn unusable(problem: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Answer, problem)
}

/// An answer without log-probabilities of the prompt: a slip of a server that gives them otherwise, else the end of the
/// run.
pub(super) fn no_logprobs(problem: &str) -> BadAnswer {
    let message = format!("The server does not return the log-probabilities of the prompt: {problem}");
    BadAnswer::Incapable(
        ModelError::new(ModelErrorKind::Capability, message)
            .hint(
                "vLLM returns them as it is; llama-cpp-python needs `--logits_all true`; \
                 SGLang is asked with `--model sglang-generate`",
            )
            .hint(
                "Servers that ignore `echo` (llama.cpp's own server, `transformers serve`, chat interfaces) \
                 can only run generation tasks",
            ),
    )
}

/// The JSON value of an answer.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, BadAnswer> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("The answer is not UTF-8"))?;
    json::loads(text).map_err(|error| malformed(format!("The answer is not JSON: {error}")))
}

/// The objects of an answer: one, or a list of them.
pub(super) fn objects(answer: &Value) -> Result<Vec<&Dict>, BadAnswer> {
    let objects = match answer {
        Value::List(list) => list.iter().map(Value::as_dict).collect(),
        other => other.as_dict().map(|dict| vec![dict]),
    };
    objects.ok_or_else(|| malformed("The answer is no JSON object"))
}

/// The `choices` of an answer's object, in the order of their `index`.
pub(super) fn choices(object: &Dict) -> Result<Vec<&Dict>, BadAnswer> {
    refuse_error(object)?;
    let list = object.get_str("choices").and_then(Value::as_list).filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| malformed("The answer has no `choices`"))?;
    let mut found = Vec::with_capacity(list.len());
    for (place, choice) in list.iter().enumerate() {
        let choice = choice.as_dict().ok_or_else(|| malformed("A choice of the answer is no object"))?;
        refuse_error(choice)?;
        refuse_abort(choice.get_str("finish_reason"))?;
        let index = choice.get_str("index").and_then(Value::as_i64);
        found.push((index.unwrap_or(place as i64), choice));
    }
    found.sort_by_key(|(index, _)| *index);
    // One alone is the answer whatever its index; of several, it must be clear which prompt each belongs to.
    let is_clear = found.iter().enumerate().all(|(place, (index, _))| *index == place as i64);
    if found.len() > 1 && !is_clear {
        let indices: Vec<String> = found.iter().map(|(index, _)| index.to_string()).collect();
        return Err(malformed(format!("The choices of the answer have the indices {}", indices.join(", "))));
    }
    Ok(found.into_iter().map(|(_, choice)| choice).collect())
}

/// Some servers report an error with the status of a success.
fn refuse_error(object: &Dict) -> Result<(), BadAnswer> {
    match object.get_str("error").filter(|error| error.is_truthy()) {
        Some(error) => Err(malformed(format!(
            "The server reports an error: {}",
            short(&lmeval_pycompat::repr::str(error))
        ))),
        None => Ok(()),
    }
}

/// A generation that the server broke off is not an answer, whatever there is of it.
pub(super) fn refuse_abort(reason: Option<&Value>) -> Result<(), BadAnswer> {
    match reason.and_then(Value::as_str) {
        Some(reason @ ("abort" | "error")) => {
            Err(malformed(format!("The server did not finish the answer: its `finish_reason` is `{reason}`")))
        }
        _ => Ok(()),
    }
}

/// The start of a text, for messages. Masked before it is cut.
pub(super) fn short(text: &str) -> String {
    let text = &*lmeval_core::secrets::mask(text);
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text of an object. Null is no text, unless the user has said what stands for it.
pub(super) fn text(object: &Dict, name: &str) -> Result<Arc<str>, BadAnswer> {
    match object.get_str(name) {
        Some(Value::Str(text)) => Ok(Arc::clone(text)),
        Some(Value::None) => {
            null_text().ok_or_else(|| malformed(format!("The text `{name}` of the answer is null")))
        }
        _ => Err(malformed(format!("The answer has no text `{name}`"))),
    }
}

/// Whether the limit of tokens ended a choice.
pub(super) fn is_cut_off(choice: &Dict) -> bool {
    choice.get_str("finish_reason").and_then(Value::as_str) == Some("length")
}

/// What an answer took: OpenAI's names of the counts, or Anthropic's.
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

/// The share of one of several requests that were answered together; the first takes what is left over.
pub(super) fn share(total: Usage, place: usize, count: usize) -> Usage {
    let count = count.max(1) as u64;
    let part = |number: u64| number / count + if place == 0 { number % count } else { 0 };
    Usage { prompt_tokens: part(total.prompt_tokens), completion_tokens: part(total.completion_tokens) }
}

/// The text behind the last end of thoughts.
pub(super) fn after_thinking(text: Arc<str>, marker: Option<&str>) -> Arc<str> {
    match marker.filter(|marker| !marker.is_empty()) {
        None => text,
        Some(marker) => {
            let answer = text.rfind(marker).map_or(text.as_ref(), |place| &text[place + marker.len()..]);
            Arc::from(strings::lstrip(answer))
        }
    }
}

/// What stands for an answer that the server says is null, where the user has set it.
pub(super) fn null_text() -> Option<Arc<str>> {
    std::env::var("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER").ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_cut_off() {
        let cut = |text: &str, marker| after_thinking(Arc::from(text), marker).to_string();
        assert_eq!(cut("zz</t>  C", Some("</t>")), "C");
        assert_eq!(cut("a</t>b</t> c", Some("</t>")), "c");
        assert_eq!(cut("  no marker", Some("</t>")), "no marker");
        assert_eq!(cut("  as it is", None), "  as it is");
    }

    #[test]
    fn counts_are_shared_out() {
        let answer = json::loads(r#"{"usage": {"prompt_tokens": 7, "completion_tokens": 3}}"#).unwrap();
        let total = usage(&answer);
        let parts: Vec<Usage> = (0..3).map(|place| share(total, place, 3)).collect();
        assert_eq!(parts.iter().map(|part| part.prompt_tokens).sum::<u64>(), 7);
        assert_eq!(parts[0].completion_tokens, 1);
    }
}
