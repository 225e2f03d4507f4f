//! OpenAI's API: `openai-completions`, `openai-chat-completions`, and the latter on Azure.

use std::env;
use std::sync::Arc;

use lmeval_core::{Model, ModelError, ModelErrorKind, ModelSettings, OptionScoring, RequestType};
use lmeval_pycompat::{Dict, Value};

use super::arguments::{Backend, Credentials};
use super::chat::{
    chat_body, chat_generations, declared_reasoning, letters_body, letters_unless, supports_chat,
};
use super::completions::Completions;
use super::protocol::{Generation, Prompt, Protocol, Rules};
use crate::http::BadAnswer;

pub(crate) const OPENAI_COMPLETIONS: Backend = Backend {
    name: "openai-completions",
    base_url: Some("https://api.openai.com/v1/completions"),
    tokenizer: "tiktoken",
    credentials: Credentials::RequiredBearer("OPENAI_API_KEY"),
    is_hosted: true,
    make: |_| {
        let models_with_logprobs = Some(["babbage-002", "davinci-002"].as_slice());
        Ok(Box::new(Completions { models_with_logprobs, is_launched: false }))
    },
};

pub(crate) const OPENAI_CHAT: Backend = Backend {
    name: "openai-chat-completions",
    base_url: Some("https://api.openai.com/v1/chat/completions"),
    tokenizer: "none",
    credentials: Credentials::RequiredBearer("OPENAI_API_KEY"),
    is_hosted: true,
    make,
};

fn make(settings: &ModelSettings) -> Result<Box<dyn Protocol>, ModelError> {
    Ok(Box::new(OpenAiChat { reasons: declared_reasoning(settings)? }))
}

/// OpenAI's chat completions, including reasoning models.
#[derive(Debug)]
pub(super) struct OpenAiChat {
    /// Whether the model rejects stop strings and a temperature; `None` decides by name.
    pub(super) reasons: Option<bool>,
}

impl OpenAiChat {
    /// Whether the model rejects stop strings and a temperature.
    fn is_reasoning_model(&self, rules: &Rules) -> bool {
        self.reasons.unwrap_or_else(|| {
            // Reference: these substrings of a name decide, wherever they occur.
            let model = rules.model.as_deref().unwrap_or_default();
            ["o1", "5", "o3", "o4"].iter().any(|part| model.contains(part))
        })
    }
}

impl Protocol for OpenAiChat {
    fn is_chat(&self) -> bool {
        true
    }

    fn supports(&self, kind: RequestType, rules: &Rules, _: bool) -> Result<(), ModelError> {
        supports_chat(kind, self.reasons(rules))
    }

    fn option_scoring(&self, rules: &Rules) -> OptionScoring {
        letters_unless(self.reasons(rules))
    }

    fn reasons(&self, rules: &Rules) -> bool {
        self.is_reasoning_model(rules) || rules.think_end_token.is_some()
    }

    fn letters(&self, prompt: &Prompt, top: u64, rules: &Rules) -> Result<Dict, ModelError> {
        letters_body(prompt, top, rules, "max_completion_tokens")
    }

    fn generation(&self, prompt: &Prompt, settings: Dict, rules: &Rules) -> Result<Dict, ModelError> {
        let until = Value::list([Value::str("<|endoftext|>")]);
        let mut body = chat_body(prompt, settings, rules, "max_completion_tokens", Some(until))?;
        if self.is_reasoning_model(rules) {
            body.remove_str("stop");
            body.insert("temperature", 1);
        }
        Ok(body)
    }

    fn read_generations(&self, answer: &Value, rules: &Rules) -> Result<Vec<Generation>, BadAnswer> {
        chat_generations(answer, rules)
    }
}

/// Creates an Azure chat model; the URL consists of an endpoint, a deployment and an API version.
pub(crate) fn create_azure(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    let value = |argument: &str, variable: &str| {
        settings.text(argument).or_else(|| env::var(variable).ok()).filter(|value| !value.is_empty())
    };
    let needed = |argument: &str, variable: &str| {
        value(argument, variable).ok_or_else(|| {
            let message =
                format!("The model needs the argument `{argument}` or the environment variable `{variable}`");
            ModelError::new(ModelErrorKind::Configuration, message)
        })
    };
    let model = needed("model", "AZURE_OPENAI_DEPLOYMENT_NAME")?;
    let endpoint = needed("base_url", "AZURE_OPENAI_ENDPOINT")?;
    let version =
        value("api_version", "AZURE_OPENAI_API_VERSION").unwrap_or_else(|| "2025-03-01-preview".into());
    let endpoint = endpoint.trim_end_matches('/');
    let url = format!("{endpoint}/openai/deployments/{model}/chat/completions?api-version={version}");
    let credentials = Credentials::Azure("AZURE_OPENAI_API_KEY");
    let backend = Backend { name: "azure-openai-chat-completions", credentials, ..OPENAI_CHAT };
    let mut client_settings = credentials.client_settings(settings, Some(&url))?;
    client_settings.base_urls = vec![url];
    backend.create_with(settings, client_settings, Some(model))
}
