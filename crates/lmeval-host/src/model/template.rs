//! The chat template of a Python model.

use std::sync::Arc;

use lmeval_core::{ChatError, ChatMessage, ChatTemplate, Context, Role};
use lmeval_pycompat::{Dict, Value};

use crate::model::PythonModel;

/// Renders conversations by calling the model.
#[derive(Debug)]
pub(crate) struct PythonTemplate {
    pub(crate) model: Arc<PythonModel>,
}

impl ChatTemplate for PythonTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError> {
        let mut parts = Dict::new();
        parts.insert("messages", Value::list(messages.iter().map(ChatMessage::to_value)));
        parts.insert("add_generation_prompt", add_generation_prompt);
        let made = self.model.ask("model_prompt", parts, "cannot apply its chat template")?;
        Ok(match &made {
            Value::Str(text) => Context::Text(Arc::clone(text)),
            Value::Tuple(parts) => match parts.as_slice() {
                [Value::Str(text)] => Context::Json(Arc::clone(text)),
                _ => return Err("The chat template returned neither a string nor messages".into()),
            },
            Value::List(made) => Context::Messages(read(made)?.into()),
            _ => return Err("The chat template returned neither a string nor messages".into()),
        })
    }
}

/// Parses messages returned by a template.
fn read(made: &[Value]) -> Result<Vec<ChatMessage>, ChatError> {
    let read = made.iter().map(|message| {
        let part = |name: &str| message.as_dict().and_then(|message| message.get_str(name));
        let roles = [Role::System, Role::User, Role::Assistant];
        let named = part("role").and_then(Value::as_str);
        let role = roles.into_iter().find(|role| Some(role.name()) == named);
        match (role, part("content")) {
            (Some(role), Some(Value::Str(content))) => Ok(ChatMessage::new(role, Arc::clone(content))),
            _ => Err("The chat template returned a message without a known role or content".into()),
        }
    });
    read.collect()
}
