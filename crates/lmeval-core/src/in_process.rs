//! Models that run in this process.

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::instance::RequestType;
use crate::model::{
    Answer, Model, ModelFacts, ModelFuture, ModelIdentity, ModelRequest, ModelTemplate, ModelTraits, Response,
};
use crate::model_error::{ModelError, ModelErrorKind};

/// A model that runs in this process.
///
/// Wrap it with [`InProcess`] to use it as a [`Model`].
///
/// ```
/// use lmeval_core::{InProcess, LocalModel, Model, ModelError, ModelIdentity, ModelRequest, Response};
/// use lmeval_core::Arguments;
///
/// /// Prefers short continuations.
/// #[derive(Debug)]
/// struct Brief;
///
/// impl LocalModel for Brief {
///     fn identity(&self) -> ModelIdentity {
///         ModelIdentity { backend: "brief".into(), facts: Vec::new() }
///     }
///
///     fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
///         Ok(match &request.arguments {
///             Arguments::Loglikelihood { continuation, .. } => {
///                 Response::Loglikelihood { logprob: -(continuation.len() as f64), is_greedy: false }
///             }
///             Arguments::Rolling { text } => Response::Rolling { logprob: -(text.len() as f64) },
///             Arguments::Generate { .. } => Response::Text("".into()),
///             Arguments::Letters { .. } => return Err(request.unsupported()),
///         })
///     }
/// }
///
/// let model = InProcess::new(Brief);
/// assert_eq!(model.traits().batch_size, 64);
/// ```
pub trait LocalModel: Debug + Send + Sync + 'static {
    /// The identity under which answers are saved; see [`ModelIdentity`].
    fn identity(&self) -> ModelIdentity;

    /// Fails if the model cannot answer requests of this type.
    fn supports(&self, _: RequestType) -> Result<(), ModelError> {
        Ok(())
    }

    /// The chat template of that name, or the default one.
    fn chat_template(&self, _name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Err(ModelError::new(ModelErrorKind::Unsupported, "The model has no chat template"))
    }

    /// What a run has to know before it sends requests; read once. A model that must compute one batch at a time, in document
    /// order, sets `in_flight` to 1. If `is_worth_saving` is false, answers are computed on the calling thread instead of a
    /// separate one.
    fn traits(&self) -> ModelTraits {
        ModelTraits::local()
    }

    /// Answers one request.
    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError>;

    /// Answers a batch. Override this if batching is faster than one request at a time.
    fn answer_batch(&self, requests: &[ModelRequest]) -> Vec<Result<Answer, ModelError>> {
        requests.iter().map(|request| self.answer(request).map(Answer::from)).collect()
    }
}

/// Adapts a [`LocalModel`] to [`Model`].
///
/// Batches run on blocking threads, at most one per core at a time, and answers are journaled like those of a server;
/// a model that answers as fast as a file can be read skips both.
#[derive(Debug)]
pub struct InProcess<M> {
    model: Arc<M>,
    traits: ModelTraits,
}

impl<M: LocalModel> InProcess<M> {
    /// Wraps a local model.
    pub fn new(model: M) -> Self {
        Self { traits: model.traits(), model: Arc::new(model) }
    }
}

impl<M: LocalModel> Model for InProcess<M> {
    fn traits(&self) -> ModelTraits {
        self.traits
    }

    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.model.identity()) })
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        self.model.supports(kind)
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.model.chat_template(name)
    }

    fn facts(&self) -> ModelFacts {
        ModelFacts { device: Some("cpu".to_owned()), ..ModelFacts::default() }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let Some(runtime) = Handle::try_current().ok().filter(|_| self.traits.is_worth_saving) else {
                return self.model.answer_batch(&requests);
            };
            let (model, count) = (Arc::clone(&self.model), requests.len());
            match runtime.spawn_blocking(move || model.answer_batch(&requests)).await {
                Ok(answers) => answers,
                Err(failed) if failed.is_panic() => resume_unwind(failed.into_panic()),
                Err(_) => {
                    let ended = ModelError::new(
                        ModelErrorKind::Unreachable,
                        "The run ended before the model answered",
                    );
                    vec![Err(ended); count]
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;
    use crate::document::DocId;
    use crate::instance::Arguments;

    /// Answers when the test signals it.
    #[derive(Debug)]
    struct Waiting(Mutex<Receiver<()>>);

    impl LocalModel for Waiting {
        fn identity(&self) -> ModelIdentity {
            ModelIdentity { backend: "waiting".to_owned(), facts: Vec::new() }
        }

        fn answer(&self, _: &ModelRequest) -> Result<Response, ModelError> {
            let signal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let signal = signal.recv_timeout(Duration::from_mins(1));
            signal.map_err(|_| ModelError::new(ModelErrorKind::Answer, "The runtime was blocked"))?;
            Ok(Response::Rolling { logprob: 0.0 })
        }
    }

    #[test]
    fn slow_model_does_not_block_runtime() {
        let (sender, signal) = channel();
        let model = InProcess::new(Waiting(Mutex::new(signal)));
        assert!(model.traits().is_worth_saving);
        let request = ModelRequest {
            task_name: "t".into(),
            doc_id: DocId(0),
            idx: 0,
            repeat: 0,
            arguments: Arguments::Rolling { text: "x".into() },
            additional_args: None,
            document: None,
            progress: None,
        };
        let runtime = Builder::new_current_thread().build().unwrap();
        let answers = runtime.block_on(async {
            let (answers, signal) = tokio::join!(model.answer(vec![request]), async { sender.send(()) });
            signal.unwrap();
            answers
        });
        assert!(answers[0].is_ok(), "{answers:?}");
    }
}
