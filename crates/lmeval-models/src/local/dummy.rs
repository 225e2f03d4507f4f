//! `dummy`: constant or random answers, for a trial run.

use std::sync::{Arc, Mutex, PoisonError};

use lmeval_core::{
    Arguments, Context, InProcess, LocalModel, Model, ModelError, ModelErrorKind, ModelIdentity,
    ModelRequest, ModelSettings, ModelTemplate, ModelTraits, RemoteTemplate, Response,
};
use lmeval_pycompat::random::Random;
use lmeval_pycompat::strings::strip;

/// A model that looks at most at the document's index.
#[derive(Debug)]
pub(crate) struct Dummy {
    /// Whether log-likelihoods are drawn at random, as in 0.4, instead of derived from the document's index.
    draws: bool,
    /// Whether chat prompts stay lists of messages.
    raw_chats: bool,
    seed: i64,
    random: Mutex<Random>,
}

/// Creates the model. Unknown arguments are ignored, as in the reference.
pub(crate) fn create(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    let seed = settings.random_seed.unwrap_or(0);
    Ok(Arc::new(InProcess::new(Dummy {
        draws: settings.dialect.dummy_draws,
        raw_chats: settings.flag("raw_chats", false)?,
        seed,
        random: Mutex::new(Random::from_seed(seed)),
    })))
}

impl Dummy {
    fn draw(&self) -> f64 {
        -self.random.lock().unwrap_or_else(PoisonError::into_inner).random()
    }
}

impl LocalModel for Dummy {
    fn traits(&self) -> ModelTraits {
        // Draws follow the order of documents.
        ModelTraits {
            in_flight: 1,
            depends_on_document: true,
            is_worth_saving: false,
            takes_media: true,
            ..ModelTraits::local()
        }
    }

    fn identity(&self) -> ModelIdentity {
        let line = if self.draws { "0.4" } else { "0.5" };
        let facts = vec![("line", line.to_owned()), ("seed", self.seed.to_string())];
        ModelIdentity { backend: "dummy".to_owned(), facts }
    }

    fn chat_template(&self, _: Option<&str>) -> Result<ModelTemplate, ModelError> {
        if self.raw_chats {
            return Ok(ModelTemplate { template: Arc::new(RemoteTemplate), source: None });
        }
        let error = ModelError::new(ModelErrorKind::Unsupported, "The model `dummy` has no chat template");
        Err(error.hint("Pass `--model_args raw_chats=true` to keep chat prompts as lists of messages"))
    }

    fn answer(&self, request: &ModelRequest) -> Result<Response, ModelError> {
        match &request.arguments {
            Arguments::Loglikelihood { .. } if self.draws => {
                Ok(Response::Loglikelihood { logprob: self.draw(), is_greedy: false })
            }
            Arguments::Loglikelihood { .. } => Ok(Response::Loglikelihood {
                logprob: -(request.doc_id.0 as f64),
                is_greedy: request.doc_id.0.is_multiple_of(2),
            }),
            Arguments::Rolling { .. } => Ok(Response::Rolling { logprob: self.draw() }),
            Arguments::Generate { context, .. } => {
                if !self.raw_chats && is_blank(context) {
                    let message = format!("The context of {} is empty or whitespace", request.describe());
                    return Err(ModelError::new(ModelErrorKind::Request, message));
                }
                Ok(Response::Text("lol".into()))
            }
            Arguments::Letters { .. } => Err(request.unsupported()),
        }
    }
}

fn is_blank(context: &Context) -> bool {
    match context {
        Context::Text(text) | Context::Json(text) => strip(text).is_empty(),
        Context::Messages(_) => false,
    }
}
