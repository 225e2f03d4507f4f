//! Clients of servers that the run itself starts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lmeval_core::{ModelError, ModelSettings, ModelTemplate};
use lmeval_pycompat::Dict;
use secrecy::SecretString;

use super::arguments::{Backend, Credentials, warn_of_unknown};
use super::chat::{ChatCompletions, LOCAL_CHAT_COMPLETIONS, declared_reasoning};
use super::completions::{Completions, LOCAL, LOCAL_COMPLETIONS};
use super::contact::list_models;
use super::model::ApiModel;
use super::pool::Keeper;
use super::sglang::{SGLANG, Sglang};
use crate::http::Client;
use crate::tokenizer::{Encoder, Tokenizer};

pub(crate) const VLLM: Backend = Backend {
    name: "vllm",
    tokenizer: "huggingface",
    credentials: Credentials::Nobody,
    make: |_| Ok(Box::new(Completions { is_launched: true, ..LOCAL })),
    ..LOCAL_COMPLETIONS
};

pub(crate) const VLLM_VLM: Backend = Backend {
    name: "vllm-vlm",
    credentials: Credentials::Nobody,
    make: |settings| {
        let reasons = declared_reasoning(settings)?.unwrap_or(false);
        Ok(Box::new(ChatCompletions { reasons, is_launched: true }))
    },
    ..LOCAL_CHAT_COMPLETIONS
};

pub(crate) const SGLANG_SERVER: Backend =
    Backend { name: "sglang", make: |_| Ok(Box::new(Sglang { is_launched: true })), ..SGLANG };

impl Backend {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A client of servers that need not run yet. Its tokenizer is local, and treats special tokens as `hf` does.
    pub(crate) fn create_on(
        &self,
        settings: &ModelSettings,
        urls: Vec<String>,
        key: &str,
        served: &str,
        add_bos: Option<bool>,
    ) -> Result<(Arc<ApiModel>, Arc<Client>), ModelError> {
        let mut read = self.credentials.client_settings(settings, urls.first().map(String::as_str))?;
        if !urls.is_empty() {
            read.base_urls = urls;
            read.headers = vec![("Authorization".to_owned(), SecretString::from(format!("Bearer {key}")))];
        }
        let client = Arc::new(Client::new(read)?);
        let model = Some(served.to_owned());
        let keeper = Arc::new(Keeper::new(Arc::clone(&client), model.clone(), true));
        let encoder = self.encoder(settings, model.as_deref(), &client)?;
        let encoder = encoder.map(|encoder| encoder.like_hf(add_bos)).transpose()?;
        let made = self.assemble(settings, &keeper, model, encoder, false)?;
        warn_of_unknown(self.name, settings, client.stats());
        Ok((made, client))
    }
}

impl ApiModel {
    /// The facts of the identity that are settings of the client.
    pub(crate) fn setting_facts(&self) -> Vec<(&'static str, String)> {
        self.settings()
    }

    /// The seed of generation requests.
    pub(crate) fn seed(&self) -> i64 {
        self.parts.rules.seed
    }

    /// Sets the context length to that of the first server that reports one.
    pub(crate) async fn take_reported_length(&self) -> Result<(), ModelError> {
        let lists = list_models(&self.parts.client, self.parts.rules.model.as_deref()).await?;
        let length = lists.into_iter().find_map(|(_, listed)| listed?.max_length);
        if let Some(length) = length.filter(|length| *length > 2) {
            self.set_max_length(length as usize);
        }
        Ok(())
    }

    /// Sets the context length, which the server has reported.
    pub(crate) fn set_max_length(&self, length: usize) {
        // One token is reserved for generation.
        self.parts.longest.store(length.saturating_sub(1), Ordering::Relaxed);
    }

    /// The chat template of the local tokenizer with additional variables; `None` if the server applies its own.
    pub(crate) fn local_template(
        &self,
        name: Option<&str>,
        variables: &Dict,
    ) -> Option<Result<ModelTemplate, ModelError>> {
        match self.parts.encoder.as_ref().map(Encoder::tokenizer) {
            Some(Tokenizer::HuggingFace(tokenizer)) if self.parts.tokenized => {
                Some(tokenizer.chat_template_with(name, variables))
            }
            _ => None,
        }
    }
}
