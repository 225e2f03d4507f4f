//! Chat templates: turning a conversation into a prompt.

use std::fmt::Debug;
use std::sync::Arc;

use crate::document::DocId;
use crate::instance::Context;
use crate::message::ChatMessage;

/// The error of a chat template that could not render a conversation.
pub type ChatError = Box<dyn std::error::Error + Send + Sync>;

/// A model's chat template.
pub trait ChatTemplate: Debug + Send + Sync {
    /// Renders a conversation as a prompt.
    ///
    /// With `add_generation_prompt`, the prompt ends with the header of an assistant turn; without it, the model
    /// continues the last message.
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError>;

    /// Renders a conversation about a document of a task. Prompts depend on nothing but the conversation; only a template
    /// that looks prompts up needs to know where they belong.
    fn apply_to(
        &self,
        _document: (&str, DocId),
        messages: Vec<ChatMessage>,
        add_generation_prompt: bool,
    ) -> Result<Context, ChatError> {
        self.apply(messages, add_generation_prompt)
    }
}

/// Passes conversations through unchanged, for models that apply their own template.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteTemplate;

impl ChatTemplate for RemoteTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, _: bool) -> Result<Context, ChatError> {
        Ok(Context::Messages(Arc::from(messages)))
    }
}
