//! Messages that prompts are composed of.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::Value;

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The system prompt.
    System,
    /// The human side of the conversation.
    User,
    /// The model's side of the conversation.
    Assistant,
}

impl Role {
    /// The name used in chat templates and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message as chat templates and chat servers see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChatMessage {
    /// Who wrote it.
    pub role: Role,
    /// The message itself.
    pub content: Arc<str>,
}

impl ChatMessage {
    /// Creates a message.
    pub fn new(role: Role, content: impl Into<Arc<str>>) -> Self {
        Self { role, content: content.into() }
    }

    /// The message as a dictionary of `role` and `content`.
    pub fn to_value(&self) -> Value {
        Value::dict([
            ("role", Value::str(self.role.name())),
            ("content", Value::Str(Arc::clone(&self.content))),
        ])
    }

    /// Reads a dictionary of `role` and `content`.
    pub fn from_value(value: &Value) -> Option<Self> {
        let dict = value.as_dict()?;
        let role = match dict.get_str("role")?.as_str()? {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => return None,
        };
        Some(Self::new(role, dict.get_str("content")?.as_str()?))
    }
}

/// One piece of a prompt. Plain prompts append the delimiter to the content; chat messages drop it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who the message is attributed to in a chat.
    pub role: Role,
    /// The message itself.
    pub content: Arc<str>,
    /// The separator before the next message in a plain prompt.
    pub delimiter: Arc<str>,
}

impl Message {
    /// Creates a message.
    pub fn new(role: Role, content: impl Into<Arc<str>>, delimiter: impl Into<Arc<str>>) -> Self {
        Self { role, content: content.into(), delimiter: delimiter.into() }
    }

    /// Drops the delimiter.
    pub fn to_chat(&self) -> ChatMessage {
        ChatMessage { role: self.role, content: Arc::clone(&self.content) }
    }
}

/// A plain prompt: the contents and delimiters, concatenated.
pub fn messages_to_text(messages: &[Message]) -> String {
    let length = messages.iter().map(|message| message.content.len() + message.delimiter.len()).sum();
    let mut text = String::with_capacity(length);
    for message in messages {
        text.push_str(&message.content);
        text.push_str(&message.delimiter);
    }
    text
}

/// A conversation with one turn per message.
pub fn messages_to_turns(messages: &[Message]) -> Vec<ChatMessage> {
    messages.iter().map(Message::to_chat).collect()
}

/// A conversation with everything between the system prompt and the start of the answer merged into one user turn.
///
/// The last delimiter is dropped. A trailing assistant message, which the model continues, remains a separate turn.
pub fn messages_to_single_turn(messages: &[Message]) -> Vec<ChatMessage> {
    let (system, rest) = match messages.split_first() {
        Some((first, rest)) if first.role == Role::System => (Some(first), rest),
        _ => (None, messages),
    };
    let (asked, started) = match rest.split_last() {
        Some((last, before)) if last.role == Role::Assistant => (before, Some(last)),
        _ => (rest, None),
    };
    let mut content = messages_to_text(asked);
    if let Some(last) = asked.last() {
        content.truncate(content.len() - last.delimiter.len());
    }
    let asked = ChatMessage::new(Role::User, content);
    system.map(Message::to_chat).into_iter().chain([asked]).chain(started.map(Message::to_chat)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_plain_multi_and_single_turn() {
        let messages = [
            Message::new(Role::System, "S", ""),
            Message::new(Role::User, "Q3:", " "),
            Message::new(Role::Assistant, "GP x", "\n\n"),
            Message::new(Role::User, "Q0:", " "),
            Message::new(Role::Assistant, "GP", ""),
        ];
        assert_eq!(messages_to_text(&messages), "SQ3: GP x\n\nQ0: GP");
        let turns: Vec<String> = messages_to_turns(&messages)
            .iter()
            .map(|turn| format!("{} {}", turn.role, turn.content))
            .collect();
        assert_eq!(turns, ["system S", "user Q3:", "assistant GP x", "user Q0:", "assistant GP"]);
        let single = |messages: &[Message]| -> Vec<String> {
            let merged = messages_to_single_turn(messages);
            merged.iter().map(|turn| format!("{} {}", turn.role, turn.content)).collect()
        };
        assert_eq!(single(&messages), ["system S", "user Q3: GP x\n\nQ0:", "assistant GP"]);
        assert_eq!(single(&messages[1..4]), ["user Q3: GP x\n\nQ0:"]);
    }
}
