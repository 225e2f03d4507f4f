//! A model on servers that the run starts.

use std::fmt;
use std::sync::Arc;

use lmeval_core::{
    Answer, CheckSink, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelFacts, ModelFuture,
    ModelIdentity, ModelRequest, ModelStats, ModelTemplate, ModelTraits, RequestType,
};
use lmeval_pycompat::Dict;

use super::examine::Examination;
use super::generation::GenerationSettings;
use super::supervise::Servers;
use crate::api::ApiModel;

/// A model on servers that the run starts when it first needs them.
pub(super) struct LaunchedModel {
    pub(super) served: Arc<ApiModel>,
    pub(super) servers: Servers,
    pub(super) identity: ModelIdentity,
    /// Additional variables for chat templates.
    pub(super) variables: Dict,
    /// Whether `enable_thinking` is on.
    pub(super) thinks: bool,
    /// What requests get besides the settings of their task.
    pub(super) generation: GenerationSettings,
    /// Whether the context length is that of the server.
    pub(super) asks_length: bool,
    /// `None` for servers that are started by somebody else.
    pub(super) examination: Option<Examination>,
}

impl fmt::Debug for LaunchedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LaunchedModel").field(&self.identity).finish()
    }
}

impl LaunchedModel {
    /// Waits for the servers, which are started if that was not done.
    async fn ready(&self) -> Result<(), ModelError> {
        let report = self.servers.ready().await?;
        if let Some(length) = report.max_length.filter(|length| self.asks_length && *length > 2) {
            self.served.set_max_length(length as usize);
        }
        Ok(())
    }

    /// Waits for an answer, or for the servers to fail for good.
    async fn or_failure<T>(&self, answer: impl Future<Output = T>) -> Result<T, ModelError> {
        tokio::select! {
            answer = answer => Ok(answer),
            error = self.servers.failure() => Err(error),
        }
    }
}

impl Model for LaunchedModel {
    fn traits(&self) -> ModelTraits {
        self.served.traits()
    }

    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.identity.clone()) })
    }

    fn known_identity(&self) -> Option<ModelIdentity> {
        // The server is still asked for its scoring protocol.
        Some(self.identity.clone())
    }

    fn assume(&self, fact: &dyn Fn(&str) -> Option<String>) {
        self.served.assume(fact);
    }

    fn first_contact(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async {
            self.ready().await?;
            self.or_failure(self.served.first_contact()).await??;
            if self.servers.are_given() && self.asks_length {
                self.served.take_reported_length().await?;
            }
            Ok(())
        })
    }

    fn examine(&self, report: CheckSink) -> ModelFuture<'_, ()> {
        match &self.examination {
            Some(examination) => Box::pin(async { examination.run(&self.served, report) }),
            None => self.served.examine(report),
        }
    }

    fn scoring_protocol(&self) -> ModelFuture<'_, Result<Option<String>, ModelError>> {
        Box::pin(async {
            self.ready().await?;
            self.or_failure(self.served.scoring_protocol()).await?
        })
    }

    fn may_score_by(&self, protocol: Option<&str>) -> bool {
        self.served.may_score_by(protocol)
    }

    fn conclude(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        self.served.conclude()
    }

    fn batches_contexts(&self) -> bool {
        self.served.batches_contexts()
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        if self.thinks && kind == RequestType::Loglikelihood {
            let message = "`enable_thinking=True` cannot be used with log-likelihoods";
            return Err(ModelError::new(ModelErrorKind::Unsupported, message)
                .hint("Use a generation variant of the task, or `enable_thinking=False`"));
        }
        self.served.supports(kind)
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        let local = self.served.local_template(name, &self.variables);
        local.unwrap_or_else(|| self.served.chat_template(name))
    }

    fn facts(&self) -> ModelFacts {
        self.served.facts()
    }

    fn stats(&self) -> Option<&ModelStats> {
        self.served.stats()
    }

    fn wind_down(&self) {
        self.served.wind_down();
        self.servers.stop_waiting();
    }

    fn answer(&self, mut requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let all = requests.len();
            self.generation.complete(&mut requests);
            let answers = async {
                self.ready().await?;
                self.or_failure(self.served.answer(requests)).await
            };
            answers.await.unwrap_or_else(|error| vec![Err(error); all])
        })
    }

    fn distributions(
        &self,
        requests: Vec<ModelRequest>,
        kept: Kept,
        sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async move {
            self.ready().await?;
            self.or_failure(self.served.distributions(requests, kept, sink)).await?
        })
    }
}
