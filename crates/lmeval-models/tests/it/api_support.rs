//! Models against servers that log their requests.

use std::sync::{Arc, Mutex};

use lmeval_core::{Answer, Arguments, Context, Dialect, DocId, Model, ModelError, ModelRequest};
use lmeval_models::{ModelSettings, create};
use lmeval_pycompat::{Dict, Value, json};

use crate::http_support::{reply, serve};

pub(crate) const TOKENIZER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../lmeval-tokenizers/tests/data/tokenizer");

/// The paths and bodies a server received.
pub(crate) type Log = Arc<Mutex<Vec<(String, String)>>>;

/// Starts a server that maps path and body to status and answer. Returns its root URL and its log.
pub(crate) async fn server(
    answer: impl Fn(&str, &str) -> (u16, String) + Clone + Send + Sync + 'static,
) -> (String, Log) {
    let log = Log::default();
    let recorded = Arc::clone(&log);
    let server = serve(move |call| {
        let body = String::from_utf8(call.body.to_vec()).unwrap();
        let (status, text) = answer(&call.path, &body);
        recorded.lock().unwrap().push((call.path, body));
        async move { reply(status, &[], &text) }
    })
    .await;
    (server.url.trim_end_matches("/v1/completions").to_owned(), log)
}

/// The bodies a server received.
pub(crate) fn bodies(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().filter(|(_, body)| !body.is_empty()).map(|(_, body)| body.clone()).collect()
}

/// Parses JSON.
pub(crate) fn value(text: &str) -> Value {
    json::loads(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Parses a JSON object.
pub(crate) fn dict(text: &str) -> Dict {
    value(text).as_dict().unwrap().clone()
}

/// A model with arguments in JSON, and short waits.
pub(crate) fn model(
    name: &str,
    args: &str,
    batch_size: i64,
    dialect: Dialect,
) -> Result<Arc<dyn Model>, ModelError> {
    let mut args = dict(args);
    args.insert("max_retries", 2);
    args.insert("retry_wait", 0.01);
    let batch_size = Some(Value::Int(batch_size));
    create(name, &ModelSettings { args, batch_size, dialect, ..ModelSettings::default() })
}

pub(crate) fn request(arguments: Arguments) -> ModelRequest {
    ModelRequest {
        task_name: "task".into(),
        doc_id: DocId(7),
        idx: 0,
        repeat: 0,
        arguments,
        additional_args: None,
        document: None,
        progress: None,
    }
}

pub(crate) fn pair(context: &str, continuation: &str) -> ModelRequest {
    request(Arguments::Loglikelihood { context: context.into(), continuation: continuation.into() })
}

pub(crate) fn rolling(text: &str) -> ModelRequest {
    request(Arguments::Rolling { text: text.into() })
}

pub(crate) fn generate(context: Context, settings: &str) -> ModelRequest {
    request(Arguments::Generate { context, kwargs: Arc::new(dict(settings)) })
}

/// Answers one request.
pub(crate) async fn ask(model: &Arc<dyn Model>, request: ModelRequest) -> Result<Answer, ModelError> {
    model.answer(vec![request]).await.pop().unwrap()
}
