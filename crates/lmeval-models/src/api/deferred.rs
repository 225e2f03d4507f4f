//! A model that asks its server for the tokenizer only when a request needs it.

use std::fmt;
use std::sync::OnceLock;

use lmeval_core::{
    Answer, Dispatch, Model, ModelError, ModelFacts, ModelFuture, ModelIdentity, ModelRequest, ModelSettings,
    ModelStats, ModelTemplate, RequestType,
};

use super::arguments::Backend;
use super::model::ApiModel;

/// A model whose tokenizer is on the server. A run that has all answers saved never asks for it.
pub(super) struct Deferred {
    /// The model without a tokenizer, with the same client.
    bare: ApiModel,
    backend: Backend,
    settings: ModelSettings,
    full: OnceLock<Result<ApiModel, ModelError>>,
}

impl Deferred {
    pub(super) fn new(bare: ApiModel, backend: Backend, settings: ModelSettings) -> Self {
        Self { bare, backend, settings, full: OnceLock::new() }
    }

    /// The model with its tokenizer.
    fn full(&self) -> Result<&ApiModel, ModelError> {
        let made = self.full.get_or_init(|| self.make(&self.settings));
        made.as_ref().map_err(Clone::clone)
    }

    fn make(&self, settings: &ModelSettings) -> Result<ApiModel, ModelError> {
        let parts = &self.bare.parts;
        let encoder = self.backend.encoder(settings, parts.rules.model.as_deref(), &parts.base_url)?;
        self.backend.assemble(
            settings,
            &parts.client,
            &parts.base_url,
            parts.rules.model.clone(),
            encoder,
            false,
        )
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deferred").field(&self.bare).finish()
    }
}

impl Model for Deferred {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { self.full()?.identity().await })
    }

    fn known_identity(&self) -> Option<ModelIdentity> {
        if let Some(Ok(full)) = self.full.get() {
            return full.known_identity();
        }
        let mut known = self.bare.known_identity()?;
        known.facts.retain(|(name, _)| *name != "tokenizer");
        Some(known)
    }

    fn assume(&self, fact: &dyn Fn(&str) -> Option<String>) {
        if fact("tokenizer").is_some_and(|tokenizer| tokenizer.starts_with("huggingface ")) {
            let mut settings = self.settings.clone();
            settings.args.insert("tokenizer_backend", "huggingface");
            // A tokenizer that is missing is reported when a request needs it.
            if let Ok(full) = self.make(&settings) {
                // Set before only if a request came first.
                let _ = self.full.set(Ok(full));
            }
        }
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        let parts = &self.bare.parts;
        parts.protocol.supports(kind, &parts.rules, parts.tokenized)
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.full()?.chat_template(name)
    }

    fn dispatch(&self) -> Dispatch {
        self.bare.dispatch()
    }

    fn facts(&self) -> ModelFacts {
        self.full.get().and_then(|full| full.as_ref().ok()).unwrap_or(&self.bare).facts()
    }

    fn wind_down(&self) {
        self.bare.wind_down();
    }

    fn stats(&self) -> Option<&ModelStats> {
        self.bare.stats()
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            match self.full() {
                Ok(full) => full.answer(requests).await,
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }
}
