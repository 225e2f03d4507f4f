//! Models that run in this process.

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::instance::RequestType;
use crate::model::{
    Answer, Dispatch, Model, ModelFacts, ModelFuture, ModelIdentity, ModelRequest, ModelTemplate,
    OptionScoring, Response,
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
/// assert_eq!(model.dispatch().batch_size, 64);
/// ```
pub trait LocalModel: Debug + Send + Sync + 'static {
    /// The identity under which answers are saved; see [`ModelIdentity`].
    fn identity(&self) -> ModelIdentity;

    /// Fails if the model cannot answer requests of this type.
    fn supports(&self, _: RequestType) -> Result<(), ModelError> {
        Ok(())
    }

    /// How the options of a question can be scored.
    fn option_scoring(&self) -> OptionScoring {
        OptionScoring::Continuations
    }

    /// Whether the model is known to reason before it answers.
    fn reasons(&self) -> bool {
        false
    }

    /// The chat template of that name, or the default one.
    fn chat_template(&self, _name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Err(ModelError::new(ModelErrorKind::Unsupported, "The model has no chat template"))
    }

    /// Whether batches must be computed one at a time, in document order.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Whether the answer depends on the document id, not only on the request's arguments.
    fn depends_on_document(&self) -> bool {
        false
    }

    /// Whether it answers faster than a file can be read. If so, answers are not journaled, and are computed on the
    /// calling thread instead of a separate one.
    fn is_instant(&self) -> bool {
        false
    }

    /// Whether answers are looked up, so that a repeated request costs nothing and its answer need not be kept in memory.
    fn is_lookup(&self) -> bool {
        false
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
/// an [instant](LocalModel::is_instant) model skips both.
#[derive(Debug)]
pub struct InProcess<M>(Arc<M>);

impl<M: LocalModel> InProcess<M> {
    /// Wraps a local model.
    pub fn new(model: M) -> Self {
        Self(Arc::new(model))
    }
}

impl<M: LocalModel> Model for InProcess<M> {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.0.identity()) })
    }

    fn supports(&self, kind: RequestType) -> Result<(), ModelError> {
        self.0.supports(kind)
    }

    fn option_scoring(&self) -> OptionScoring {
        self.0.option_scoring()
    }

    fn reasons(&self) -> bool {
        self.0.reasons()
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.0.chat_template(name)
    }

    fn dispatch(&self) -> Dispatch {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Dispatch { batch_size: 64, in_flight: if self.0.is_sequential() { 1 } else { cores } }
    }

    fn depends_on_document(&self) -> bool {
        self.0.depends_on_document()
    }

    fn is_worth_saving(&self) -> bool {
        !self.0.is_instant()
    }

    fn is_lookup(&self) -> bool {
        self.0.is_lookup()
    }

    fn facts(&self) -> ModelFacts {
        ModelFacts { device: Some("cpu".to_owned()), ..ModelFacts::default() }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let Some(runtime) = Handle::try_current().ok().filter(|_| !self.0.is_instant()) else {
                return self.0.answer_batch(&requests);
            };
            let (model, count) = (Arc::clone(&self.0), requests.len());
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
        assert!(model.is_worth_saving());
        let request = ModelRequest {
            task_name: "t".into(),
            doc_id: DocId(0),
            idx: 0,
            repeat: 0,
            arguments: Arguments::Rolling { text: "x".into() },
            additional_args: None,
            document: None,
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
