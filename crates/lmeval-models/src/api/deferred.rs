//! A model that asks its server for the tokenizer only when a request needs it.

use std::fmt;
use std::sync::Arc;

use lmeval_core::{
    Answer, CheckSink, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelFacts, ModelFuture,
    ModelIdentity, ModelRequest, ModelSettings, ModelStats, ModelTemplate, ModelTraits, RequestType,
};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::arguments::Backend;
use super::model::ApiModel;

/// A model whose tokenizer is on the server. A run that has all answers saved never asks for it.
pub(super) struct Deferred {
    /// The model without a tokenizer, with the same client.
    bare: Arc<ApiModel>,
    backend: Backend,
    settings: ModelSettings,
    full: OnceCell<Result<Arc<ApiModel>, ModelError>>,
}

impl Deferred {
    pub(super) fn new(bare: Arc<ApiModel>, backend: Backend, settings: ModelSettings) -> Self {
        Self { bare, backend, settings, full: OnceCell::new() }
    }

    /// The model with its tokenizer, which is fetched on a thread that may block.
    async fn full(&self) -> Result<&ApiModel, ModelError> {
        let fetch = || async {
            let (bare, backend, settings) = (Arc::clone(&self.bare), self.backend, self.settings.clone());
            spawn_blocking(move || make(&bare, backend, &settings)).await.unwrap_or_else(|error| {
                let message = format!("The model could not be created: {error}");
                Err(ModelError::new(ModelErrorKind::Configuration, message))
            })
        };
        self.full.get_or_init(fetch).await.as_deref().map_err(Clone::clone)
    }

    /// The model with its tokenizer if there is one already, and the one without it otherwise.
    fn made(&self) -> &ApiModel {
        self.full.get().and_then(|full| full.as_deref().ok()).unwrap_or(&self.bare)
    }
}

fn make(bare: &ApiModel, backend: Backend, settings: &ModelSettings) -> Result<Arc<ApiModel>, ModelError> {
    let parts = &bare.parts;
    let encoder = backend.encoder(settings, parts.rules.model.as_deref(), &parts.client)?;
    backend.assemble(settings, &parts.keeper, parts.rules.model.clone(), encoder, false)
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deferred").field(&self.bare).finish()
    }
}

impl Model for Deferred {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { self.full().await?.identity().await })
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
        self.bare.assume(fact);
        if fact("tokenizer").is_some_and(|tokenizer| tokenizer.starts_with("huggingface ")) {
            let mut settings = self.settings.clone();
            settings.args.insert("tokenizer_backend", "huggingface");
            // A tokenizer that is missing is reported when a request needs it.
            if let Ok(full) = make(&self.bare, self.backend, &settings) {
                full.assume(fact);
                // Set before only if a request came first.
                let _ = self.full.set(Ok(full));
            }
        }
    }

    fn first_contact(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        self.bare.first_contact()
    }

    fn examine(&self, report: CheckSink) -> ModelFuture<'_, ()> {
        Box::pin(async move {
            let mut report = report;
            let Some(listed) = self.bare.examine_contact(&mut report).await else { return };
            match self.full().await {
                Ok(full) => full.examine_answers(&listed, None, report).await,
                Err(error) => self.bare.examine_answers(&listed, Some(&error), report).await,
            }
        })
    }

    fn scoring_protocol(&self) -> ModelFuture<'_, Result<Option<String>, ModelError>> {
        Box::pin(async { self.full().await?.scoring_protocol().await })
    }

    fn may_score_by(&self, protocol: Option<&str>) -> bool {
        self.bare.may_score_by(protocol)
    }

    fn conclude(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        self.made().conclude()
    }

    fn batches_contexts(&self) -> bool {
        self.made().batches_contexts()
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        self.bare.serves(kind)
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        if self.bare.parts.protocol.is_chat() {
            // The server applies it.
            return self.bare.chat_template(name);
        }
        // Runs ask for templates before they send anything, on a thread that may block.
        if let Some(full) = self.full.get() {
            return full.as_deref().map_err(Clone::clone)?.chat_template(name);
        }
        let made = make(&self.bare, self.backend, &self.settings);
        // A request that has come in between makes its own.
        let _ = self.full.set(made.clone());
        made?.chat_template(name)
    }

    fn traits(&self) -> ModelTraits {
        self.bare.traits()
    }

    fn facts(&self) -> ModelFacts {
        self.made().facts()
    }

    fn wind_down(&self) {
        self.bare.wind_down();
    }

    fn stats(&self) -> Option<&ModelStats> {
        self.bare.stats()
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            match self.full().await {
                Ok(full) => full.answer(requests).await,
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn distributions(
        &self,
        requests: Vec<ModelRequest>,
        kept: Kept,
        sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async move { self.full().await?.distributions(requests, kept, sink).await })
    }
}
