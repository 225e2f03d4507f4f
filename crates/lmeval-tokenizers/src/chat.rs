//! The chat template of a tokenizer, from its folder, a file, or a server.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{
    ChatError, ChatMessage, ChatTemplate, Context, ModelError, ModelErrorKind, ModelTemplate, Role,
};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::chat::{ChatOptions, ChatTemplate as JinjaTemplate};

/// A template that is rendered here, with the special tokens of its tokenizer.
#[derive(Debug)]
pub struct TokenizerTemplate {
    template: JinjaTemplate,
    /// Special tokens, and what the user adds.
    variables: Dict,
    /// Whether text that the answer continues is left open, as tokenizers do it; a bare file is rendered as it is.
    continues: bool,
}

impl TokenizerTemplate {
    /// Reads a Jinja file, or a tokenizer's folder: `chat_template.jinja` there, else `tokenizer_config.json`, of whose
    /// templates `name` chooses one.
    pub fn read(path: &Path, name: Option<&str>) -> Result<Self, ModelError> {
        if path.is_file() {
            let source = read(path)?;
            return Ok(Self { template: compile(&source, path)?, variables: Dict::new(), continues: false });
        }
        let config = path.join("tokenizer_config.json");
        let text = if config.is_file() { Some(read(&config)?) } else { None };
        let variables = text.as_deref().map(special_tokens).unwrap_or_default();
        let own = path.join("chat_template.jinja");
        let named = name.map(|name| path.join("additional_chat_templates").join(format!("{name}.jinja")));
        let chosen = named.filter(|file| file.is_file()).or_else(|| {
            // A tokenizer with a single template has no use for a name.
            let has_several = text.as_deref().is_some_and(|text| text.contains("\"chat_template\""));
            let is_own = own.is_file() && (!has_several || name.is_none_or(|name| name == "default"));
            is_own.then_some(own)
        });
        if let Some(file) = chosen {
            return Ok(Self { template: compile(&read(&file)?, &file)?, variables, continues: true });
        }
        let Some(text) = text else {
            let message =
                format!("`{}` has neither `chat_template.jinja` nor `tokenizer_config.json`", path.display());
            return Err(error(message));
        };
        let template = JinjaTemplate::from_tokenizer_config(&text, name)
            .map_err(|problem| unusable(&format!("`{}`", config.display()), &problem))?;
        let Some(template) = template else {
            return Err(error(format!("`{}` has no chat template", config.display()))
                .hint("Models without one are asked without `--apply_chat_template`"));
        };
        Ok(Self { template, variables, continues: true })
    }

    /// The template of a server, with its special tokens.
    pub fn from_server(source: &str, tokens: Dict) -> Result<Self, ModelError> {
        Self::from_source(source, "the server", tokens)
    }

    /// A template that stands in something else, with its special tokens.
    pub(crate) fn from_source(source: &str, place: &str, tokens: Dict) -> Result<Self, ModelError> {
        let template = JinjaTemplate::compile(source).map_err(|problem| unusable(place, &problem))?;
        Ok(Self { template, variables: tokens, continues: true })
    }

    /// Sets what the template may use beside the conversation: special tokens, and what the user adds.
    pub(crate) fn set_variables(&mut self, variables: Dict) {
        self.variables = variables;
    }

    /// The text of the template.
    pub fn source(&self) -> &str {
        self.template.source()
    }

    /// The template and its text, as a model hands them out.
    pub fn into_model_template(self) -> ModelTemplate {
        let source = Some(self.source().to_owned());
        ModelTemplate { template: Arc::new(self), source }
    }
}

fn error(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

fn read(path: &Path) -> Result<String, ModelError> {
    fs_err::read_to_string(path)
        .map_err(|problem| error(format!("The chat template cannot be read: {problem}")))
}

fn compile(source: &str, path: &Path) -> Result<JinjaTemplate, ModelError> {
    JinjaTemplate::compile(source).map_err(|problem| unusable(&format!("`{}`", path.display()), &problem))
}

fn unusable(place: &str, problem: &lmeval_template::Error) -> ModelError {
    let message = format!("The chat template of {place} cannot be used: {}", problem.message());
    problem.hints().iter().fold(error(message), |error, hint| error.hint(hint.clone()))
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
            self.template.render_chat(&values, options, &self.variables)
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
