//! Chat templates of local models: a Jinja text without a tokenizer.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ChatError, ChatMessage, ChatTemplate, Context, ModelError, ModelTemplate};
use lmeval_pycompat::{Dict, Value};
use lmeval_template::chat::{ChatOptions, ChatTemplate as JinjaTemplate};

use super::arguments::configuration;

/// Roles and contents, a line each; an answer that is begun stays open.
const BUILT_IN: &str = "{% for message in messages %}{{ message.role }}: {{ message.content }}\
    {% if not loop.last or add_generation_prompt %}{{ '\\n' }}{% endif %}{% endfor %}\
    {% if add_generation_prompt %}assistant:{% endif %}";

/// A Jinja template that is rendered as it is: what the answer continues is for the template to leave open.
#[derive(Debug)]
pub(super) struct PlainTemplate(JinjaTemplate);

impl PlainTemplate {
    /// The template of a text; `name` stands for it in errors.
    pub(super) fn compile(source: &str, name: &str) -> Result<Self, ModelError> {
        JinjaTemplate::compile(source).map(Self).map_err(|error| {
            let message = format!("The chat template {name} cannot be used: {}", error.message());
            error.hints().iter().fold(configuration(message), ModelError::hint)
        })
    }

    /// The template of models that have none of their own.
    pub(super) fn built_in() -> Self {
        Self(JinjaTemplate::compile(BUILT_IN).expect("the built-in template is checked by a test"))
    }

    /// The template of a file.
    pub(super) fn read(path: &Path) -> Result<Self, ModelError> {
        let source = fs_err::read_to_string(path)
            .map_err(|error| configuration(format!("The chat template cannot be read: {error}")))?;
        Self::compile(&source, &format!("`{}`", path.display()))
    }

    /// The template as a model hands it out.
    pub(super) fn into_model_template(self) -> ModelTemplate {
        let source = self.0.source().to_owned();
        ModelTemplate { template: Arc::new(self), source: Some(source) }
    }

    /// The text of a conversation.
    pub(super) fn render(
        &self,
        messages: &[ChatMessage],
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let values = Value::list(messages.iter().map(ChatMessage::to_value));
        let options = ChatOptions { add_generation_prompt, continue_final_message: false };
        Ok(self.0.render_chat(&values, options, &Dict::new())?)
    }
}

impl ChatTemplate for PlainTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError> {
        Ok(Context::Text(self.render(&messages, add_generation_prompt)?.into()))
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::Role;

    use super::*;

    #[test]
    fn the_built_in_template_writes_lines() {
        let template = PlainTemplate::built_in();
        let mut messages =
            vec![ChatMessage::new(Role::System, "Be brief."), ChatMessage::new(Role::User, "Why?")];
        assert_eq!(template.render(&messages, true).unwrap(), "system: Be brief.\nuser: Why?\nassistant:");
        messages.push(ChatMessage::new(Role::Assistant, "Because"));
        assert_eq!(
            template.render(&messages, false).unwrap(),
            "system: Be brief.\nuser: Why?\nassistant: Because"
        );
    }
}
