//! The model `hf`: answers requests with a model of this process, or of several like it.

mod message;
mod parallel;
mod prepare;
mod process;
mod queue;
mod serve;
mod sink;
mod work;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lmeval_core::{
    Answer, AnswerSink, Dispatch, Model, ModelError, ModelErrorKind, ModelFacts, ModelFuture, ModelIdentity,
    ModelRequest, ModelSettings, ModelStats, ModelTemplate,
};

use self::parallel::ParallelModel;
use self::prepare::Prepared;
use self::sink::{Sink, lost};
use self::work::Answerer;

pub use self::serve::serve;

/// Requests that are looked at together for what they have in common.
const REQUESTS: usize = 8192;
/// How much of their text: what is computed of it needs several times as much.
const BATCH_BYTES: usize = 32 << 20;
/// How long that many are waited for.
const FILL_TIME: Duration = Duration::from_secs(1);

/// Makes the model.
pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    let prepared = Prepared::new(settings)?;
    if prepared.arguments.places.len() > 1 {
        return Ok(Arc::new(ParallelModel::new(prepared, settings)?));
    }
    Ok(Arc::new(HfModel { answerer: Arc::new(Answerer::new(prepared, 1)?) }))
}

/// A model of this process.
#[derive(Debug)]
struct HfModel {
    answerer: Arc<Answerer>,
}

impl Model for HfModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.answerer.prepared().identity.clone()) })
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.answerer.prepared().chat_template(name)
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch { batch_size: REQUESTS, in_flight: 1 }
    }

    fn batch_bytes(&self) -> usize {
        BATCH_BYTES
    }

    fn fill_time(&self) -> Duration {
        FILL_TIME
    }

    fn facts(&self) -> ModelFacts {
        self.answerer.prepared().facts.clone()
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(self.answerer.stats())
    }

    fn wind_down(&self) {
        self.answerer.end();
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
}

/// The error of work that ended in a way it should not.
fn failed(error: tokio::task::JoinError) -> ModelError {
    let Ok(panic) = error.try_into_panic() else { return lost() };
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let message =
        format!("The computation failed in a way it should not: {}", text.unwrap_or("it says no more"));
    ModelError::new(ModelErrorKind::Capability, message)
}

/// All answers in the order of the requests, from a model that gives them one by one.
fn in_order(
    model: &dyn Model,
    requests: Vec<ModelRequest>,
) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
    Box::pin(async move {
        let answers = Arc::new(Mutex::new(vec![None; requests.len()]));
        let kept = Arc::clone(&answers);
        let sink = move |place: usize, answer| {
            if let Some(slot) = kept.lock().unwrap_or_else(PoisonError::into_inner).get_mut(place) {
                *slot = Some(answer);
            }
        };
        model.answer_each(requests, Box::new(sink)).await;
        let answers = std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner));
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect()
    })
}
