//! The model `hf`: answers requests in this process, or in several worker processes.

mod distributions;
mod message;
mod parallel;
mod prepare;
mod process;
mod serve;
mod work;

use std::sync::Arc;
use std::time::Duration;

use lmeval_core::work_queue::{Sink, in_order, unanswered};
use lmeval_core::{
    Answer, AnswerSink, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelFacts, ModelFuture,
    ModelIdentity, ModelRequest, ModelSettings, ModelStats, ModelTemplate, ModelTraits,
};

use self::parallel::ParallelModel;
use self::prepare::Prepared;
use self::work::Answerer;
use crate::device::unused_gpu;

pub use self::serve::serve;

/// Requests per batch. Prefixes are shared within a batch.
const REQUESTS: usize = 8192;
/// Bytes of prompts per batch. Their tokens need several times as much memory.
const BATCH_BYTES: usize = 32 << 20;
/// How long to wait for a full batch.
const FILL_TIME: Duration = Duration::from_secs(1);

/// Creates the model from its settings.
pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    let prepared = Prepared::new(settings)?;
    let ignores_gpu = prepared.arguments.ignores_gpu;
    let model: Arc<dyn Model> = if prepared.arguments.devices.len() > 1 {
        Arc::new(ParallelModel::new(prepared, settings)?)
    } else {
        Arc::new(HfModel { answerer: Arc::new(Answerer::new(prepared, 1)?) })
    };
    if let Some(stats) = model.stats().filter(|_| ignores_gpu) {
        stats.warn(unused_gpu());
    }
    Ok(model)
}

/// A model in this process.
#[derive(Debug)]
struct HfModel {
    answerer: Arc<Answerer>,
}

impl Model for HfModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.answerer.prepared().identity.clone()) })
    }

    fn portable_identity(&self) -> Option<ModelIdentity> {
        Some(self.answerer.prepared().portable_identity())
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.answerer.prepared().chat_template(name)
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits {
            batch_size: REQUESTS,
            batch_bytes: BATCH_BYTES,
            in_flight: 1,
            fill_time: FILL_TIME,
            ..ModelTraits::default()
        }
    }

    fn facts(&self) -> ModelFacts {
        self.answerer.prepared().facts.clone()
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(self.answerer.stats())
    }

    fn wind_down(&self) {
        self.answerer.cancel();
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        in_order(self, requests)
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, sink: AnswerSink) -> ModelFuture<'_, ()> {
        let answerer = Arc::clone(&self.answerer);
        Box::pin(async move {
            let sink = Arc::new(Sink::new(sink, requests.len()));
            let working = Arc::clone(&sink);
            let work = tokio::task::spawn_blocking(move || answerer.work(&requests, &working));
            if let Err(error) = work.await {
                sink.fail(&failed(error));
            }
        })
    }

    fn distributions(
        &self,
        requests: Vec<ModelRequest>,
        kept: Kept,
        sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        let answerer = Arc::clone(&self.answerer);
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || answerer.distributions(&requests, kept, sink));
            work.await.unwrap_or_else(|error| Err(failed(error)))
        })
    }
}

/// The error of a computation that panicked.
fn failed(error: tokio::task::JoinError) -> ModelError {
    let Ok(panic) = error.try_into_panic() else { return unanswered() };
    let message =
        panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("Internal error in the model: {}", message.unwrap_or("unknown panic"));
    ModelError::new(ModelErrorKind::Capability, message)
}
