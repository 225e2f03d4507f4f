//! Chat messages serialized to JSON for servers.

use std::sync::Arc;

use lmeval_core::{ChatError, ChatMessage, ChatTemplate, Context, Dialect, ModelTemplate};
use lmeval_pycompat::{Dict, Value, json};

/// The "template" for servers that apply their own: messages as a JSON string.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonTemplate {
    /// Whether each message has `"type": "text"`.
    with_type: bool,
}

impl JsonTemplate {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { with_type: dialect == Dialect::V05 }
    }

    /// The template for prompt building; `source` is recorded in results.
    pub(super) fn into_model_template(self, source: Option<String>) -> ModelTemplate {
        ModelTemplate { template: Arc::new(self), source }
    }

    /// The messages as sent to servers.
    pub(super) fn messages(self, messages: &[ChatMessage]) -> Value {
        Value::list(messages.iter().map(|message| {
            let mut dict = Dict::with_capacity(3);
            dict.insert("role", message.role.name());
            dict.insert("content", Value::Str(Arc::clone(&message.content)));
            if self.with_type {
                dict.insert("type", "text");
            }
            Value::Dict(Arc::new(dict))
        }))
    }
}

/// The template of models on servers that apply their own: prompts are chat messages as JSON.
pub fn server_template(dialect: Dialect) -> ModelTemplate {
    JsonTemplate::new(dialect).into_model_template(None)
}

impl ChatTemplate for JsonTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, _: bool) -> Result<Context, ChatError> {
        let options = json::Options { ensure_ascii: false, ..json::Options::default() };
        Ok(Context::Json(json::dumps(&self.messages(&messages), &options)?.into()))
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::Role;

    use super::*;

    #[test]
    fn serializes_messages_in_both_dialects() {
        let messages = vec![ChatMessage::new(Role::System, "S é"), ChatMessage::new(Role::User, "hi")];
        let json = |dialect| match JsonTemplate::new(dialect).apply(messages.clone(), true).unwrap() {
            Context::Json(text) => text.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            json(Dialect::V05),
            r#"[{"role": "system", "content": "S é", "type": "text"}, {"role": "user", "content": "hi", "type": "text"}]"#
        );
        assert_eq!(
            json(Dialect::V04),
            r#"[{"role": "system", "content": "S é"}, {"role": "user", "content": "hi"}]"#
        );
    }
}
