//! The prompt of a sample: chat turns, and where few-shot examples begin.

use lmeval_analysis::summary::TaskSettings;
use lmeval_pycompat::{Value, json as python_json};

use crate::api::{Prompt, PromptPart, PromptPartKind, Text, Turn};
use crate::record::{Record, context_text};

/// The prompt as the page of a document shows it.
pub(crate) fn describe(record: &Record<'_>, settings: &TaskSettings, limit: usize) -> Prompt {
    let context = record.requests.first().map(|request| request.context.clone()).unwrap_or_default();
    let whole = context_text(&context);
    let turn = |(role, content): (String, String)| Turn { role, content: Text::start_of(&content, limit) };
    let turns: Option<Vec<Turn>> = messages(&context).map(|turns| turns.into_iter().map(turn).collect());
    let text = Text::start_of(&whole, limit);
    // Offsets are into what is sent: not where secrets were replaced in it.
    let parts = if text.text == whole && turns.is_none() { parts(&whole, settings) } else { Vec::new() };
    Prompt { text, turns, parts }
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
fn parts(prompt: &str, settings: &TaskSettings) -> Vec<PromptPart> {
    let shots =
        settings.num_fewshot.or_else(|| settings.config.get_str("num_fewshot")?.to_f64()).unwrap_or(0.0);
    if shots < 1.0 {
        return Vec::new();
    }
    let nested = settings.config.get_str("fewshot_config").and_then(Value::as_dict);
    let delimiter = nested
        .and_then(|nested| nested.get_str("fewshot_delimiter"))
        .or_else(|| settings.config.get_str("fewshot_delimiter"))
        .and_then(Value::as_str)
        .unwrap_or("\n\n");
    if delimiter.is_empty() {
        return Vec::new();
    }
    let description = settings.config.get_str("description").and_then(Value::as_str).unwrap_or_default();
    let start = if prompt.starts_with(description) { description.len() } else { 0 };
    let pieces: Vec<&str> = prompt[start..].split(delimiter).collect();
    if pieces.len() != shots as usize + 1 {
        return Vec::new();
    }
    let mut parts = Vec::new();
    if start > 0 {
        parts.push(PromptPart { start: 0, kind: PromptPartKind::Description });
    }
    let units = |text: &str| text.encode_utf16().count();
    let mut at = units(&prompt[..start]);
    for (index, piece) in pieces.iter().enumerate() {
        let is_last = index + 1 == pieces.len();
        let kind = if is_last { PromptPartKind::Question } else { PromptPartKind::Example };
        parts.push(PromptPart { start: at, kind });
        at += units(piece) + units(delimiter);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(shots: i64, description: &str) -> TaskSettings {
        let Value::Dict(config) = Value::dict([
            ("description", Value::str(description)),
            ("fewshot_delimiter", Value::str("\n\n")),
        ]) else {
            unreachable!()
        };
        TaskSettings { config: (*config).clone(), num_fewshot: Some(shots as f64) }
    }

    #[test]
    fn finds_examples_only_where_that_is_certain() {
        let found = parts("Ä.\n\nQ1\n\nQ2\n\nQ3", &facts(2, "Ä.\n\n"));
        let starts: Vec<usize> = found.iter().map(|part| part.start).collect();
        assert_eq!(starts, [0, 4, 8, 12]);
        assert_eq!(found[3].kind, PromptPartKind::Question);
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
