//! The chat template of a tokenizer, from its folder or a file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use lmeval_core::{ChatError, ChatMessage, ChatTemplate, Context, Role};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::chat::{ChatOptions, ChatTemplate as JinjaTemplate};

use crate::report::with_hints;

/// A template that is rendered here, with the special tokens of its tokenizer.
#[derive(Debug)]
pub(crate) struct TokenizerTemplate {
    template: JinjaTemplate,
    tokens: Dict,
    /// Whether text that the answer continues is left open, as tokenizers do it; a bare file is rendered as it is.
    continues: bool,
}

impl TokenizerTemplate {
    /// Reads a Jinja file, or a tokenizer's folder: `chat_template.jinja` there, else `tokenizer_config.json`, of whose
    /// templates `name` chooses one.
    pub(crate) fn read(path: &Path, name: Option<&str>) -> Result<Self> {
        if path.is_file() {
            let source = fs_err::read_to_string(path)?;
            return Ok(Self { template: compile(&source, path)?, tokens: Dict::new(), continues: false });
        }
        let config = path.join("tokenizer_config.json");
        let text = if config.is_file() { Some(fs_err::read_to_string(&config)?) } else { None };
        let tokens = text.as_deref().map(special_tokens).unwrap_or_default();
        let own = path.join("chat_template.jinja");
        if own.is_file() && name.is_none_or(|name| name == "default") {
            let source = fs_err::read_to_string(&own)?;
            return Ok(Self { template: compile(&source, &own)?, tokens, continues: true });
        }
        let Some(text) = text else {
            bail!("`{}` has neither `chat_template.jinja` nor `tokenizer_config.json`", path.display());
        };
        let template = JinjaTemplate::from_tokenizer_config(&text, name)
            .map_err(|error| with_hints(error.message(), error.hints()))
            .with_context(|| format!("The chat template of `{}` cannot be used", config.display()))?;
        let Some(template) = template else { bail!("`{}` has no chat template", config.display()) };
        Ok(Self { template, tokens, continues: true })
    }
}

fn compile(source: &str, path: &Path) -> Result<JinjaTemplate> {
    JinjaTemplate::compile(source)
        .map_err(|error| with_hints(error.message(), error.hints()))
        .with_context(|| format!("The chat template `{}` cannot be used", path.display()))
}

/// `bos_token` and its like, which templates may print.
fn special_tokens(config: &str) -> Dict {
    let Ok(Value::Dict(config)) = json::loads(config) else {
        return Dict::new();
    };
    let named = config.iter().filter(|(key, _)| key.as_str().is_some_and(|key| key.ends_with("_token")));
    named
        .filter_map(|(key, value)| {
            let text = value.as_str().or_else(|| value.as_dict()?.get_str("content")?.as_str())?;
            Some((key.clone(), Value::from(text)))
        })
        .collect()
}

impl ChatTemplate for TokenizerTemplate {
    fn apply(&self, messages: Vec<ChatMessage>, add_generation_prompt: bool) -> Result<Context, ChatError> {
        let continue_final_message = self.continues && !add_generation_prompt;
        let options = ChatOptions { add_generation_prompt, continue_final_message };
        let render = |messages: &[ChatMessage]| {
            let values = Value::list(messages.iter().map(ChatMessage::to_value));
            self.template.render_chat(&values, options, &self.tokens)
        };
        let text = render(&messages).or_else(|error| {
            // Reference: templates that refuse system messages are tried again without them.
            let others: Vec<ChatMessage> =
                messages.iter().filter(|message| message.role != Role::System).cloned().collect();
            if others.len() == messages.len() { Err(error) } else { render(&others) }
        })?;
        Ok(Context::Text(Arc::from(text)))
    }
}
