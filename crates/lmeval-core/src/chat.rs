//! How a model turns a conversation into a prompt.

use std::fmt::Debug;
use std::sync::Arc;

use crate::instance::Context;
use crate::message::ChatMessage;

/// Why a conversation could not be turned into a prompt.
pub type ChatError = Box<dyn std::error::Error + Send + Sync>;

/// The chat template of a model.
pub trait ChatTemplate: Debug + Send + Sync {
    /// The prompt of a conversation.
    ///
    /// `add_generation_prompt` asks for the start of an answer behind the last message; without it, the last message
    /// is one that the answer continues.
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError>;
}

/// The template of a model that gets conversations as they are and applies its own template.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteTemplate;

impl ChatTemplate for RemoteTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, _: bool) -> Result<Context, ChatError> {
        Ok(Context::Messages(Arc::from(messages)))
    }
}
