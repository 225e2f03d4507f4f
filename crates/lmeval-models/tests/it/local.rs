//! Helpers for tests of local models.

use std::sync::Arc;

use lmeval_core::{
    Answer, Arguments, Context, DocId, Model, ModelError, ModelIdentity, ModelRequest, Response,
};
use lmeval_models::{ModelSettings, create};
use lmeval_pycompat::{Dict, Value, json};

/// A model with arguments in JSON.
pub(crate) fn model(name: &str, args: &str) -> Result<Arc<dyn Model>, ModelError> {
    create(name, &ModelSettings::from_args(dict(args)))
}

/// Parses a JSON object.
pub(crate) fn dict(text: &str) -> Dict {
    json::loads(text).unwrap().as_dict().unwrap().clone()
}

/// A request of document 0 of task `t`.
pub(crate) fn request(arguments: Arguments) -> ModelRequest {
    ModelRequest {
        task_name: "t".into(),
        doc_id: DocId(0),
        idx: 0,
        repeat: 0,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    }
}

/// A log-likelihood request.
pub(crate) fn loglikelihood(context: &str, continuation: &str) -> ModelRequest {
    request(Arguments::Loglikelihood { context: context.into(), continuation: continuation.into() })
}

/// A rolling log-likelihood request.
pub(crate) fn rolling(text: &str) -> ModelRequest {
    request(Arguments::Rolling { text: text.into() })
}

/// A generation request; settings are JSON.
pub(crate) fn generate(context: impl Into<Context>, kwargs: &str) -> ModelRequest {
    request(Arguments::Generate { context: context.into(), kwargs: Arc::new(dict(kwargs)) })
}

/// Answers a batch.
pub(crate) fn answers(model: &dyn Model, requests: Vec<ModelRequest>) -> Vec<Result<Answer, ModelError>> {
    runtime().block_on(model.answer(requests))
}

/// Answers one request.
pub(crate) fn ask(model: &dyn Model, request: ModelRequest) -> Result<Response, ModelError> {
    answers(model, vec![request]).remove(0).map(|answer| answer.response)
}

/// The log-likelihood of a request, and whether it is greedy.
pub(crate) fn score(model: &dyn Model, request: ModelRequest) -> (f64, bool) {
    match ask(model, request).unwrap() {
        Response::Loglikelihood { logprob, is_greedy } => (logprob, is_greedy),
        Response::Rolling { logprob } => (logprob, false),
        other => panic!("expected a log-likelihood, got {other:?}"),
    }
}

/// The generation of a request.
pub(crate) fn text(model: &dyn Model, request: ModelRequest) -> String {
    match ask(model, request).unwrap() {
        Response::Text(text) => text.as_ref().to_owned(),
        other => panic!("expected a generation, got {other:?}"),
    }
}

pub(crate) fn identity(model: &dyn Model) -> ModelIdentity {
    runtime().block_on(model.identity()).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Parses JSON.
pub(crate) fn value(text: &str) -> Value {
    json::loads(text).unwrap()
}
