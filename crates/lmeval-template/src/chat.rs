//! Chat templates of tokenizers, rendered like `transformers` does.
//!
//! Undefined values print nothing, blocks consume the surrounding whitespace, loops support `break` and
//! `continue`, and a template can neither change its input nor read anything else.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, json};

use crate::error::{Error, ErrorKind};
use crate::lexer::Whitespace;
use crate::parser::Syntax;
use crate::program::{Program, Settings};
use crate::template::{DEFAULT_FUEL, Template};

/// A compiled chat template.
///
/// ```
/// use lmeval_pycompat::{Dict, Value};
/// use lmeval_template::chat::{ChatOptions, ChatTemplate};
///
/// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}";
/// let template = ChatTemplate::compile(source).unwrap();
/// let message = Value::dict([("role", Value::str("user")), ("content", Value::str("Hi"))]);
/// let text = template.render_chat(&Value::list([message]), ChatOptions::default(), &Dict::new()).unwrap();
/// assert_eq!(text, "<user>Hi\n");
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    template: Template,
}

/// How the prompt ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChatOptions {
    /// Whether to append the prompt for the assistant's answer.
    pub add_generation_prompt: bool,
    /// Whether to continue the last message: the prompt then ends with its content.
    pub continue_final_message: bool,
}

fn settings() -> Settings {
    Settings { strict: false, chat: true, fuel: DEFAULT_FUEL, clock: None }
}

impl ChatTemplate {
    /// Compiles the source of a chat template, such as `chat_template.jinja`.
    pub fn compile(source: &str) -> Result<Self, Error> {
        let whitespace = Whitespace { trim_blocks: true, lstrip_blocks: true, keep_trailing_newline: false };
        let syntax = Syntax { whitespace, loop_controls: true, generation: true, expression: false };
        let program = Program::compile(source, syntax, true)?;
        Ok(Self { template: Template::with_settings(program, settings()) })
    }

    /// Extracts the template from `tokenizer_config.json`; `None` if it has none.
    ///
    /// A tokenizer may have several named templates; `name` selects one, and the default is `default`.
    pub fn from_tokenizer_config(text: &str, name: Option<&str>) -> Result<Option<Self>, Error> {
        let config = json::loads(text).map_err(|error| {
            Error::new(ErrorKind::Value, format!("The tokenizer configuration is not JSON: {error}"))
        })?;
        let Some(templates) = config.as_dict().and_then(|config| config.get_str("chat_template")) else {
            return Ok(None);
        };
        if let Some(source) = templates.as_str() {
            return Self::compile(source).map(Some);
        }
        let Some(templates) = templates.as_list() else {
            return Ok(None);
        };
        let wanted = name.unwrap_or("default");
        let mut known = Vec::new();
        for entry in templates.iter().filter_map(Value::as_dict) {
            let text = |key: &str| entry.get_str(key).and_then(Value::as_str);
            let (Some(entry_name), Some(source)) = (text("name"), text("template")) else {
                continue;
            };
            if entry_name == wanted {
                return Self::compile(source).map(Some);
            }
            known.push(format!("`{entry_name}`"));
        }
        if known.is_empty() {
            return Ok(None);
        }
        let error =
            Error::new(ErrorKind::Value, format!("The tokenizer has no chat template named `{wanted}`"));
        Err(error.with_hint(format!("The templates are {}", known.join(", "))))
    }

    /// Sets the clock for `strftime_now`: a function that formats the current time.
    pub fn with_clock(mut self, clock: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.template.set_clock(Arc::new(clock));
        self
    }

    /// Renders the template with only these variables.
    pub fn render(&self, variables: &Dict) -> Result<String, Error> {
        self.template.render(variables)
    }

    /// Renders messages; `extra` holds further variables such as `bos_token`.
    pub fn render_chat(&self, messages: &Value, options: ChatOptions, extra: &Dict) -> Result<String, Error> {
        if options.add_generation_prompt && options.continue_final_message {
            return Err(Error::value_error(
                "`continue_final_message` and `add_generation_prompt` exclude each other",
            ));
        }
        let mut variables = Dict::with_capacity(extra.len() + 4);
        variables.insert("messages", messages.clone());
        variables.insert("tools", Value::None);
        variables.insert("documents", Value::None);
        variables.insert("add_generation_prompt", options.add_generation_prompt);
        variables.update(extra);
        let rendered = self.template.render(&variables)?;
        if !options.continue_final_message {
            return Ok(rendered);
        }
        let last = messages.as_list().and_then(<[Value]>::last).and_then(Value::as_dict);
        let content = last.and_then(|message| message.get_str("content")).and_then(final_text);
        let Some(content) = content else {
            return Err(Error::value_error("The last message has no text to continue"));
        };
        cut_after(rendered, content)
    }

    /// The template source.
    pub fn source(&self) -> &str {
        self.template.source()
    }
}

/// The text of a message's content, which may be a list of parts.
fn final_text(content: &Value) -> Option<&str> {
    match content {
        Value::Str(text) => Some(text),
        Value::List(parts) => parts
            .iter()
            .rev()
            .filter_map(|part| part.as_dict())
            .find_map(|part| part.get_str("text").and_then(Value::as_str)),
        _ => None,
    }
}

/// Truncates the rendered prompt after the last occurrence of the final message.
fn cut_after(rendered: String, content: &str) -> Result<String, Error> {
    let trimmed = lmeval_pycompat::strings::strip(content);
    let Some(position) = rendered.rfind(trimmed) else {
        return Err(Error::value_error("The template changes the last message, so it cannot be continued"));
    };
    // Reference: trailing whitespace of the message stays only if it has no leading whitespace and the
    // template keeps it.
    let end =
        position + if rendered[position..].starts_with(content) { content.len() } else { trimmed.len() };
    let mut rendered = rendered;
    rendered.truncate(end);
    Ok(rendered)
}
