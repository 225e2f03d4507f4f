//! Chat templates from a tokenizer's folder, a file, or a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{
    ChatError, ChatMessage, ChatTemplate, Context, ModelError, ModelErrorKind, ModelTemplate, Role,
};
use lmeval_pycompat::{Dict, Value, json};
use lmeval_template::chat::{ChatOptions, ChatTemplate as JinjaTemplate};

use crate::locate::TEMPLATES;

/// A chat template with its tokenizer's special tokens.
#[derive(Debug)]
pub struct TokenizerTemplate {
    template: JinjaTemplate,
    /// Special tokens and user-defined variables.
    variables: Dict,
    /// Leave a final assistant message open for continuation, like `transformers`. Not done for a standalone file.
    continues: bool,
}

impl TokenizerTemplate {
    /// Reads a Jinja file, or the template `name` of a tokenizer's folder: from its `.jinja` files, else from
    /// `tokenizer_config.json`.
    pub fn read(path: &Path, name: Option<&str>) -> Result<Self, ModelError> {
        if path.is_file() {
            let source = read(path)?;
            return Ok(Self { template: compile(&source, path)?, variables: Dict::new(), continues: false });
        }
        let config = path.join("tokenizer_config.json");
        let text = if config.is_file() { Some(read(&config)?) } else { None };
        let variables = text.as_deref().map(special_tokens).unwrap_or_default();
        // Reference: template files replace all templates of the configuration.
        let files = template_files(path);
        if let Some(file) = choose(&files, name, path)? {
            return Ok(Self { template: compile(&read(file)?, file)?, variables, continues: true });
        }
        let Some(text) = text else {
            let message =
                format!("`{}` has neither `chat_template.jinja` nor `tokenizer_config.json`", path.display());
            return Err(error(message));
        };
        let template = JinjaTemplate::from_tokenizer_config(&text, name)
            .map_err(|problem| invalid(&format!("`{}`", config.display()), &problem))?;
        let Some(template) = template else {
            return Err(error(format!("`{}` has no chat template", config.display()))
                .hint("Run models without a chat template without `--apply_chat_template`"));
        };
        Ok(Self { template, variables, continues: true })
    }

    /// Compiles a template that a server returned.
    pub fn from_server(source: &str, tokens: Dict) -> Result<Self, ModelError> {
        Self::from_source(source, "the server", tokens)
    }

    /// Compiles a template from a string. `origin` names its source in messages.
    pub(crate) fn from_source(source: &str, origin: &str, tokens: Dict) -> Result<Self, ModelError> {
        let template = JinjaTemplate::compile(source).map_err(|problem| invalid(origin, &problem))?;
        Ok(Self { template, variables: tokens, continues: true })
    }

    /// Sets the variables available besides the conversation.
    pub fn set_variables(&mut self, variables: Dict) {
        self.variables = variables;
    }

    /// The Jinja source.
    pub fn source(&self) -> &str {
        self.template.source()
    }

    /// Converts to the form that models return.
    pub fn into_model_template(self) -> ModelTemplate {
        let source = Some(self.source().to_owned());
        ModelTemplate { template: Arc::new(self), source }
    }
}

/// The chat templates that are files of a tokenizer's folder, by name.
fn template_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    let default = folder.join("chat_template.jinja");
    if default.is_file() {
        files.insert("default".to_owned(), default);
    }
    let entries = fs_err::read_dir(folder.join(TEMPLATES)).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_file()) {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jinja")) {
            files.insert(name.to_owned(), path.clone());
        }
    }
    files
}

/// Chooses a template by name. A single default template is used whatever the name is.
fn choose<'a>(
    files: &'a BTreeMap<String, PathBuf>,
    name: Option<&str>,
    folder: &Path,
) -> Result<Option<&'a PathBuf>, ModelError> {
    if files.is_empty() {
        return Ok(None);
    }
    let default = files.get("default");
    let wanted = name.filter(|_| files.len() > 1 || default.is_none()).unwrap_or("default");
    files.get(wanted).map(Some).ok_or_else(|| {
        let known: Vec<&str> = files.keys().map(String::as_str).collect();
        error(format!("`{}` has no chat template `{wanted}`", folder.display()))
            .hint(format!("Available templates: `{}`", known.join("`, `")))
    })
}

fn error(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

fn read(path: &Path) -> Result<String, ModelError> {
    fs_err::read_to_string(path).map_err(|problem| error(format!("Cannot read the chat template: {problem}")))
}

fn compile(source: &str, path: &Path) -> Result<JinjaTemplate, ModelError> {
    JinjaTemplate::compile(source).map_err(|problem| invalid(&format!("`{}`", path.display()), &problem))
}

fn invalid(origin: &str, problem: &lmeval_template::Error) -> ModelError {
    let message = format!("The chat template of {origin} is invalid: {}", problem.message());
    problem.hints().iter().fold(error(message), |error, hint| error.hint(hint.clone()))
}

/// The special tokens of a configuration, such as `bos_token`.
fn special_tokens(config: &str) -> Dict {
    let Ok(Value::Dict(config)) = json::loads(config) else {
        return Dict::new();
    };
    let named = config.iter().filter(|(key, _)| key.as_str().is_some_and(|key| key.ends_with("_token")));
    named
        .filter_map(|(key, value)| {
            let token = value.as_str().or_else(|| value.as_dict()?.get_str("content")?.as_str())?;
            Some((key.clone(), Value::from(token)))
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
            // Reference: a template that rejects system messages is rendered again without them.
            let others: Vec<ChatMessage> =
                messages.iter().filter(|message| message.role != Role::System).cloned().collect();
            if others.len() == messages.len() { Err(error) } else { render(&others) }
        })?;
        Ok(Context::Text(Arc::from(text)))
    }
}
