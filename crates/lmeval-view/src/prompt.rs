//! The prompt of a sample: chat turns, and where few-shot examples begin.

use lmeval_pycompat::{Value, json as python_json};
use serde_json::{Value as Json, json};

use crate::record::{Record, context_text};
use crate::samples::TaskFacts;
use crate::wire;

/// `Prompt` of the interface.
pub(crate) fn describe(record: &Record<'_>, facts: &TaskFacts, limit: usize) -> Json {
    let context = record.requests.first().map(|request| request.context.clone()).unwrap_or_default();
    let whole = context_text(&context);
    let turns = messages(&context).map(|turns| {
        let turns = turns.into_iter();
        turns
            .map(|(role, content)| json!({ "role": role, "content": wire::text(&content, limit) }))
            .collect::<Vec<Json>>()
    });
    let text = wire::text(&whole, limit);
    // Offsets are into what is sent: not where secrets were replaced in it.
    let is_whole = text["text"].as_str() == Some(whole.as_str());
    let parts = if is_whole && turns.is_none() { parts(&whole, facts) } else { Vec::new() };
    json!({ "text": text, "turns": turns, "parts": parts })
}

/// The turns of a chat: a list of messages, or a string with such a list as JSON.
fn messages(context: &Value) -> Option<Vec<(String, String)>> {
    let list = match context {
        Value::List(_) => context.clone(),
        Value::Str(text) if text.starts_with("[{") => python_json::loads(text).ok()?,
        _ => return None,
    };
    let turns: Option<Vec<(String, String)>> = list
        .as_list()?
        .iter()
        .map(|message| {
            let message = message.as_dict()?;
            let role = message.get_str("role")?.as_str()?.to_owned();
            let content = message.get_str("content")?;
            Some((role, context_text(content)))
        })
        .collect();
    turns.filter(|turns| !turns.is_empty())
}

/// Where the description, the examples and the question start, in UTF-16 units. Empty if that is not certain: the
/// delimiter has to occur exactly once per example.
fn parts(prompt: &str, facts: &TaskFacts) -> Vec<Json> {
    let shots = facts.num_fewshot.or_else(|| facts.config.get_str("num_fewshot")?.to_f64()).unwrap_or(0.0);
    if shots < 1.0 {
        return Vec::new();
    }
    let nested = facts.config.get_str("fewshot_config").and_then(Value::as_dict);
    let delimiter = nested
        .and_then(|nested| nested.get_str("fewshot_delimiter"))
        .or_else(|| facts.config.get_str("fewshot_delimiter"))
        .and_then(Value::as_str)
        .unwrap_or("\n\n");
    if delimiter.is_empty() {
        return Vec::new();
    }
    let description = facts.config.get_str("description").and_then(Value::as_str).unwrap_or_default();
    let start = if prompt.starts_with(description) { description.len() } else { 0 };
    let pieces: Vec<&str> = prompt[start..].split(delimiter).collect();
    if pieces.len() != shots as usize + 1 {
        return Vec::new();
    }
    let mut parts = Vec::new();
    if start > 0 {
        parts.push(json!({ "start": 0, "kind": "description" }));
    }
    let units = |text: &str| text.encode_utf16().count();
    let mut at = units(&prompt[..start]);
    for (index, piece) in pieces.iter().enumerate() {
        let kind = if index + 1 == pieces.len() { "question" } else { "example" };
        parts.push(json!({ "start": at, "kind": kind }));
        at += units(piece) + units(delimiter);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(shots: i64, description: &str) -> TaskFacts {
        let Value::Dict(config) = Value::dict([
            ("description", Value::str(description)),
            ("fewshot_delimiter", Value::str("\n\n")),
        ]) else {
            unreachable!()
        };
        TaskFacts { config: (*config).clone(), num_fewshot: Some(shots as f64) }
    }

    #[test]
    fn finds_examples_only_where_that_is_certain() {
        let found = parts("Ä.\n\nQ1\n\nQ2\n\nQ3", &facts(2, "Ä.\n\n"));
        let starts: Vec<u64> = found.iter().filter_map(|part| part["start"].as_u64()).collect();
        assert_eq!(starts, [0, 4, 8, 12]);
        assert_eq!(found[3]["kind"], "question");
        assert!(parts("Q1\n\nmore\n\nQ2", &facts(1, "")).is_empty());
        assert!(parts("Q1\n\nQ2", &facts(0, "")).is_empty());
    }

    #[test]
    fn reads_turns_of_both_forms() {
        let text = Value::str(r#"[{"role": "user", "content": "Hi"}]"#);
        assert_eq!(messages(&text), Some(vec![("user".to_owned(), "Hi".to_owned())]));
        assert_eq!(messages(&Value::str("[{not json")), None);
        assert_eq!(messages(&Value::str("plain")), None);
    }
}
