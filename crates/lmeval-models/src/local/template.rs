//! Chat templates of local models: Jinja without a tokenizer.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{ChatError, ChatMessage, ChatTemplate, Context, ModelError, ModelTemplate};
use lmeval_pycompat::{Dict, Value};
use lmeval_template::chat::{ChatOptions, ChatTemplate as JinjaTemplate};

use super::arguments::configuration;

/// One line per message, `role: content`; a prefilled answer stays open.
const BUILT_IN: &str = "{% for message in messages %}{{ message.role }}: {{ message.content }}\
    {% if not loop.last or add_generation_prompt %}{{ '\\n' }}{% endif %}{% endfor %}\
    {% if add_generation_prompt %}assistant:{% endif %}";

/// A Jinja template rendered without continuation handling: the template itself must leave a prefilled answer
/// open.
#[derive(Debug)]
pub(super) struct PlainTemplate(JinjaTemplate);

impl PlainTemplate {
    /// Compiles a template; `name` identifies it in errors.
    pub(super) fn compile(source: &str, name: &str) -> Result<Self, ModelError> {
        JinjaTemplate::compile(source).map(Self).map_err(|error| {
            let message = format!("The chat template {name} is not valid: {}", error.message());
            error.hints().iter().fold(configuration(message), ModelError::hint)
        })
    }

    /// The template of models without their own.
    pub(super) fn built_in() -> Self {
        Self(JinjaTemplate::compile(BUILT_IN).expect("the built-in template is checked by a test"))
    }

    /// Reads a template from a file.
    pub(super) fn read(path: &Path) -> Result<Self, ModelError> {
        let source = fs_err::read_to_string(path)
            .map_err(|error| configuration(format!("The chat template could not be read: {error}")))?;
        Self::compile(&source, &format!("`{}`", path.display()))
    }

    /// Wraps it for prompt building.
    pub(super) fn into_model_template(self) -> ModelTemplate {
        let source = self.0.source().to_owned();
        ModelTemplate { template: Arc::new(self), source: Some(source) }
    }

    /// Renders chat messages.
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
    fn built_in_template_writes_one_line_per_message() {
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
