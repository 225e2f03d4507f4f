//! One question with its answer, as messages.

use std::sync::Arc;

use lmeval_core::{Message, Role};
use lmeval_pycompat::strings::is_space;

use super::error::{PromptError, PromptErrorKind};

/// Joins two strings, with the delimiter between them unless one is empty or there is whitespace at the joint.
pub(crate) fn join(before: &str, after: &str, delimiter: &str) -> String {
    let delimited = !before.is_empty() && !after.is_empty() && needs_delimiter(before, after);
    [before, if delimited { delimiter } else { "" }, after].concat()
}

/// Whether the first string is not empty and neither side of the joint is whitespace.
///
/// Reference: an empty second string is an `IndexError` here; we treat it as one without whitespace.
pub(crate) fn needs_delimiter(before: &str, after: &str) -> bool {
    !before.is_empty() && !before.ends_with(is_space) && !after.starts_with(is_space)
}

/// The delimiters between the parts of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Delimiters {
    /// Between question and answer.
    pub(crate) target: Delimiter,
    /// After the answer.
    pub(crate) fewshot: Delimiter,
}

/// A delimiter that a task may set to null, which is an error only where the delimiter is needed.
#[derive(Clone, Debug)]
pub(crate) struct Delimiter {
    text: Option<Arc<str>>,
    field: &'static str,
}

impl Delimiter {
    /// The delimiter that a field configures.
    pub(crate) fn new(field: &'static str, text: Option<&str>) -> Self {
        Self { text: text.map(Arc::from), field }
    }

    /// The delimiter, or an error if it is null.
    pub(crate) fn get(&self) -> Result<&Arc<str>, PromptError> {
        self.text.as_ref().ok_or_else(|| {
            PromptError::new(PromptErrorKind::Type, "The delimiter is null")
                .in_field(self.field)
                .hint("Write `\"\"` for no delimiter")
        })
    }
}

/// Appends the messages of a question and its answer, or of the start of the answer.
pub(crate) fn push_turn(
    messages: &mut Vec<Message>,
    question: &Arc<str>,
    answer: Option<&Arc<str>>,
    prefix: Option<&Arc<str>>,
    delimiters: &Delimiters,
) -> Result<(), PromptError> {
    let delimited = match prefix {
        Some(prefix) => needs_delimiter(question, prefix),
        None => answer.is_some(),
    };
    let delimiter = if delimited { Arc::clone(delimiters.target.get()?) } else { Arc::default() };
    messages.push(Message { role: Role::User, content: Arc::clone(question), delimiter });
    match (answer, prefix) {
        (Some(answer), prefix) => {
            let content = match prefix {
                // Reference: a space, whatever the target delimiter is.
                Some(prefix) => join(prefix, answer, " ").into(),
                None => Arc::clone(answer),
            };
            let delimiter = Arc::clone(delimiters.fewshot.get()?);
            messages.push(Message { role: Role::Assistant, content, delimiter });
        }
        (None, Some(prefix)) => {
            messages.push(Message {
                role: Role::Assistant,
                content: Arc::clone(prefix),
                delimiter: Arc::default(),
            });
        }
        (None, None) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lmeval_core::messages_to_text;

    use super::*;

    #[test]
    fn renders_turns_as_strings() {
        let delimiters = Delimiters {
            target: Delimiter::new("target_delimiter", Some("=>")),
            fewshot: Delimiter::new("fewshot_delimiter", Some("|")),
        };
        let cases = [
            ("Why?", None, Some("Yes"), "Why?=>Yes|"),
            ("Why?", None, None, "Why?"),
            ("Why?", Some("So"), None, "Why?=>So"),
            ("Why?", Some("So"), Some("Yes"), "Why?=>So Yes|"),
            ("Why? ", Some("So"), Some("Yes"), "Why? So Yes|"),
            ("Why?", Some(" So"), None, "Why? So"),
            ("Why?", Some("So "), Some("Yes"), "Why?=>So Yes|"),
            ("Why? ", None, Some(" Yes"), "Why? => Yes|"),
            ("", Some("So"), Some("Yes"), "So Yes|"),
        ];
        for (question, prefix, answer, text) in cases {
            let mut messages = Vec::new();
            let (prefix, answer): (Option<Arc<str>>, Option<Arc<str>>) =
                (prefix.map(Into::into), answer.map(Into::into));
            push_turn(&mut messages, &question.into(), answer.as_ref(), prefix.as_ref(), &delimiters)
                .unwrap();
            assert_eq!(messages_to_text(&messages), text);
        }
    }

    #[test]
    fn joins_strings() {
        assert_eq!(join("", "s", "|"), "s");
        assert_eq!(join("p", "", "|"), "p");
        assert_eq!(join("", "", "|"), "");
        assert_eq!(join("p", "s", "|"), "p|s");
        assert_eq!(join("p ", "s", "|"), "p s");
        assert_eq!(join("p", "\u{1c}s", "|"), "p\u{1c}s");
        assert_eq!(join("p\u{200b}", "s", "|"), "p\u{200b}|s");
        assert!(!needs_delimiter("", "s"));
        assert!(needs_delimiter("p", "s"));
        assert!(!needs_delimiter("p\u{3000}", "s"));
    }

    #[test]
    fn null_delimiter_is_an_error_only_where_needed() {
        let delimiters = Delimiters {
            target: Delimiter::new("target_delimiter", None),
            fewshot: Delimiter::new("fewshot_delimiter", None),
        };
        let mut messages = Vec::new();
        push_turn(&mut messages, &"Q".into(), None, None, &delimiters).unwrap();
        let error = push_turn(&mut messages, &"Q".into(), Some(&"A".into()), None, &delimiters).unwrap_err();
        assert_eq!(error.to_string(), "`target_delimiter`: The delimiter is null");
    }
}
