//! Models written in Python.

mod calls;
mod distributions;
mod failure;
mod link;
mod settings;
mod template;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use lmeval_core::{
    Answer, AnswerSink, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelFacts, ModelFuture,
    ModelIdentity, ModelRequest, ModelTemplate, ModelTraits,
};
use lmeval_pycompat::{Dict, Function, Value};
use tokio::sync::oneshot;

pub use settings::PythonModelSettings;

use crate::caller::Caller;
use crate::error::WorkerError;
use crate::model::calls::{Call, ModelMessage, calls, decode, document, encode_call};
use crate::model::failure::failure;
use crate::model::link::{Link, ModelProcess};
use crate::model::template::PythonTemplate;
use crate::options::PythonOptions;
use crate::protocol::{ProtocolError, encode_message};
use crate::services::without_run;
use crate::worker::Purpose;

/// How many requests a model gets at once: it sorts them by length and forms its own batches.
const REQUESTS_PER_BATCH: usize = 8192;

/// How long to wait for more requests, so that a model gets many at once.
const FILL_TIME: Duration = Duration::from_secs(1);

/// Hint after a failed call.
const RESUME_HINT: &str =
    "With `--output_path` or `--use_cache`, answers are saved and the same command resumes the run";

/// Hint for a model whose `cache_hook` gets different answers than it returns.
const DIFFERING_HINT: &str = "Pass `cache_hook` the answers that the model returns; those passed so far may be saved, \
                              so use another `--output_path` or `--use_cache` for the next run";

/// A Python process whose plug-ins have registered models.
///
/// It becomes the process of the model created from one of them.
#[derive(Debug)]
pub struct RegisteredModels {
    process: ModelProcess,
    names: Vec<String>,
}

impl RegisteredModels {
    /// Starts a process and lists the registered models.
    pub fn start(options: &PythonOptions) -> Result<Self, ModelError> {
        Self::discover(options).map_err(not_found)
    }

    /// Like [`RegisteredModels::start`]; `None` if there is no Python, and hence no plug-ins.
    pub fn start_if_possible(options: &PythonOptions) -> Result<Option<Self>, ModelError> {
        match Self::discover(options) {
            Ok(registered) => Ok(Some(registered)),
            Err(error) if error.is_missing_python() => Ok(None),
            Err(error) => Err(not_found(error)),
        }
    }

    fn discover(options: &PythonOptions) -> Result<Self, WorkerError> {
        let process = ModelProcess::start(options, Purpose::Model)?;
        let mut names = Vec::new();
        let mut take = |value: Value| {
            names.extend(value.as_list().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
            true
        };
        process.converse("{\"op\":\"model_names\"}", &mut take, &without_run)?;
        Ok(Self { process, names })
    }

    /// The names of the registered models.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Creates the model with a name.
    pub fn create(self, name: &str, settings: &PythonModelSettings) -> Result<Arc<PythonModel>, ModelError> {
        let mut parts = settings.to_dict();
        parts.insert("name", name);
        PythonModel::open("python", name, Box::new(self.process), &parts, settings)
    }
}

/// A model in a Python process.
///
/// Requests are sent in batches of one type. Answers passed to the model's `cache_hook` arrive at once, others at
/// the end of the call.
#[derive(Debug)]
pub struct PythonModel {
    name: String,
    handle: i64,
    identity: ModelIdentity,
    ignored: Vec<String>,
    rolling_context: bool,
    takes_media: bool,
    link: Box<dyn Link>,
    is_ending: AtomicBool,
    /// Whether the call in flight has produced answers.
    has_answered: AtomicBool,
    this: Weak<Self>,
}

impl PythonModel {
    /// Creates a model of the original package `lm_eval` installed for the interpreter.
    pub fn original(
        name: &str,
        options: &PythonOptions,
        settings: &PythonModelSettings,
    ) -> Result<Arc<Self>, ModelError> {
        let what = format!("Cannot create the model `{name}` of the package `lm_eval`");
        let process = ModelProcess::start(options, Purpose::Original)
            .map_err(|error| failure(ModelErrorKind::Configuration, &what, error))?;
        let mut parts = settings.to_dict();
        parts.insert("name", name);
        Self::open("lm_eval", name, Box::new(process), &parts, settings)
    }

    /// Wraps a model owned by the calling Python process.
    pub fn of_caller(
        caller: Arc<Caller>,
        reference: &Function,
        settings: &PythonModelSettings,
    ) -> Result<Arc<Self>, ModelError> {
        let mut parts = settings.to_dict();
        let function = [&reference.directory, &reference.reference].map(|part| Value::str(part.as_str()));
        parts.insert("function", Value::list(function));
        Self::open("python", &reference.reference, Box::new(caller), &parts, settings)
    }

    fn open(
        backend: &str,
        name: &str,
        link: Box<dyn Link>,
        parts: &Dict,
        settings: &PythonModelSettings,
    ) -> Result<Arc<Self>, ModelError> {
        let what = format!("Cannot create the model `{name}`");
        let kind = ModelErrorKind::Configuration;
        let described = ask_once(&*link, "model_open", parts).map_err(|error| failure(kind, &what, error))?;
        let (Some(description), Some(handle)) = (described.as_dict(), part(&described, "handle")) else {
            return Err(ModelError::new(kind, format!("{what}: Python did not describe it")));
        };
        let class = part(&described, "class").and_then(Value::as_str).unwrap_or(name);
        let ignored = part(&described, "ignored").and_then(Value::as_list).unwrap_or_default();
        Ok(Arc::new_cyclic(|this| Self {
            name: class.to_owned(),
            handle: handle.as_i64().unwrap_or_default(),
            identity: settings.identity(backend, description),
            ignored: ignored.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            rolling_context: match part(&described, "rolling_context") {
                Some(Value::Bool(has_context)) => *has_context,
                _ => settings.rolling_context,
            },
            takes_media: part(&described, "multimodal").is_some_and(Value::is_truthy),
            link,
            is_ending: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            this: Weak::clone(this),
        }))
    }

    /// The name of the model's Python class.
    pub fn class_name(&self) -> &str {
        &self.name
    }

    /// Settings that the model does not accept: `batch_size`, `max_batch_size`, `device`.
    pub fn ignored_settings(&self) -> &[String] {
        &self.ignored
    }

    /// Sends a message other than requests.
    pub(crate) fn ask(&self, operation: &str, mut parts: Dict, what: &str) -> Result<Value, ModelError> {
        parts.insert("handle", self.handle);
        let what = format!("The model `{}` {what}", self.name);
        ask_once(&*self.link, operation, &parts).map_err(|error| {
            let is_missing =
                matches!(&error, WorkerError::Raised { kind, .. } if kind == "NotImplementedError");
            let kind = if is_missing { ModelErrorKind::Unsupported } else { ModelErrorKind::Configuration };
            failure(kind, &what, error)
        })
    }

    /// Answers a batch, call by call. An error is reported for one request only, because it ends the run.
    fn answer_calls(&self, requests: &[ModelRequest], sink: &mut AnswerSink) {
        for call in calls(requests) {
            if self.is_ending.load(Ordering::SeqCst) {
                return;
            }
            let mut open = vec![true; call.indices.len()];
            if let Err(error) = self.call(&call, requests, &mut open, sink) {
                let first = open.iter().position(|is_open| *is_open).unwrap_or_default();
                return sink(call.indices[first], Err(error));
            }
        }
    }

    fn call(
        &self,
        call: &Call,
        requests: &[ModelRequest],
        open: &mut [bool],
        sink: &mut AnswerSink,
    ) -> Result<(), ModelError> {
        let what = format!("The model `{}` failed in `{}`", self.name, call.kind);
        let wrong = |message: &str| {
            let error = ProtocolError::Malformed(message.to_owned()).into();
            failure(ModelErrorKind::Capability, &what, error)
        };
        let message = encode_call(self.handle, call, requests, self.rolling_context)
            .map_err(|error| failure(ModelErrorKind::Request, &what, error.into()))?;
        self.has_answered.store(false, Ordering::SeqCst);
        let mut malformed = false;
        let mut missing = open.len();
        // The last answer is held back until the call is over, so that there is a request left that can fail.
        let mut last = None;
        let mut take = |value: Value| {
            let (number, answer) = match decode(call.kind, &value) {
                Some(ModelMessage::Done) => return true,
                Some(ModelMessage::Answer(number, answer)) => (number, Ok(answer)),
                Some(ModelMessage::Bad(number, message)) => {
                    let message = format!("The model `{}` gave an unusable answer: {message}", self.name);
                    (number, Err(ModelError::new(ModelErrorKind::Answer, message)))
                }
                None => {
                    malformed = true;
                    return false;
                }
            };
            self.has_answered.store(true, Ordering::SeqCst);
            match open.get_mut(number) {
                Some(is_open) if *is_open => {
                    *is_open = false;
                    missing -= 1;
                    if missing == 0 {
                        last = Some((number, answer));
                    } else {
                        sink(call.indices[number], answer);
                    }
                }
                _ => malformed = true,
            }
            false
        };
        let serve = |question: &Dict| document(question, call, requests);
        let conversed = self.link.converse(&message, &mut take, &serve);
        drop(message);
        if let Some((number, answer)) = last {
            if conversed.is_ok() || self.is_ending.load(Ordering::SeqCst) {
                sink(call.indices[number], answer);
            } else {
                open[number] = true;
            }
        }
        match conversed {
            // An interrupted request has not failed.
            Err(error) if self.is_ending.load(Ordering::SeqCst) => {
                Err(failure(ModelErrorKind::Unreachable, &what, error))
            }
            Err(error) => {
                let hint = if is_differing(&error) { DIFFERING_HINT } else { RESUME_HINT };
                Err(failure(ModelErrorKind::Capability, &what, error).hint(hint))
            }
            Ok(()) if malformed => Err(wrong("an answer to no request or of the wrong type")),
            Ok(()) => Ok(()),
        }
    }
}

fn is_differing(error: &WorkerError) -> bool {
    matches!(error, WorkerError::Raised { kind, .. } if kind == "DifferingAnswers")
}

fn not_found(error: WorkerError) -> ModelError {
    failure(ModelErrorKind::Configuration, "Cannot list the models of plug-ins", error)
}

fn part<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_dict().and_then(|dict| dict.get_str(name))
}

fn ask_once(link: &dyn Link, operation: &str, parts: &Dict) -> Result<Value, WorkerError> {
    let mut answer = Value::None;
    let mut take = |value: Value| {
        answer = value;
        true
    };
    link.converse(&encode_message(operation, parts)?, &mut take, &without_run)?;
    Ok(answer)
}

impl Model for PythonModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.identity.clone()) })
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        let mut parts = Dict::new();
        parts.insert("template", name.map_or(Value::Bool(true), Value::str));
        let description = self.ask("model_template", parts, "has no usable chat template")?;
        let source = part(&description, "source").and_then(Value::as_str).map(str::to_owned);
        let model = self.this.upgrade().expect("the model is borrowed, so it is alive");
        Ok(ModelTemplate { template: Arc::new(PythonTemplate { model }), source })
    }

    fn traits(&self) -> ModelTraits {
        ModelTraits {
            batch_size: REQUESTS_PER_BATCH,
            fill_time: FILL_TIME,
            reads_documents: true,
            takes_media: self.takes_media,
            wants_every_request: self.link.is_live(),
            ..ModelTraits::default()
        }
    }

    fn facts(&self) -> ModelFacts {
        // Results omit facts that a model does not report.
        let description = self.ask("model_facts", Dict::new(), "does not report facts").unwrap_or_default();
        let dict =
            |name: &str| part(&description, name).and_then(Value::as_dict).cloned().unwrap_or_default();
        let sizes = part(&description, "batch_sizes").and_then(Value::as_list).unwrap_or_default();
        ModelFacts {
            config: dict("config"),
            tokenizer: dict("tokenizer"),
            batch_sizes: sizes.iter().filter_map(Value::as_i64).collect(),
            device: part(&description, "device").and_then(Value::as_str).map(str::to_owned),
        }
    }

    fn wind_down(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        // A model that delivers answers one by one loses next to nothing; another one would lose all.
        if self.has_answered.load(Ordering::SeqCst) {
            self.link.interrupt();
        }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        Box::pin(async move {
            let (sender, receiver) = std::sync::mpsc::channel();
            let mut answers: Vec<_> = requests.iter().map(|_| None).collect();
            // The receiver outlives all senders.
            let sink = Box::new(move |index, answer| drop(sender.send((index, answer))));
            self.answer_each(requests, sink).await;
            for (index, answer) in receiver {
                answers[index] = Some(answer);
            }
            let first =
                answers.iter().flatten().find_map(|answer: &Result<_, ModelError>| answer.as_ref().err());
            let error = first.cloned().unwrap_or_else(|| {
                ModelError::new(
                    ModelErrorKind::Unreachable,
                    format!("The model `{}` was interrupted", self.name),
                )
            });
            answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(error.clone()))).collect()
        })
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, mut sink: AnswerSink) -> ModelFuture<'_, ()> {
        Box::pin(async move {
            let (done, ended) = oneshot::channel();
            let model = self.this.upgrade().expect("the model is borrowed, so it is alive");
            let work = move || {
                model.answer_calls(&requests, &mut sink);
                // The engine waits for this thread to end and for the sink to be dropped.
                drop((requests, sink, model));
                let _ = done.send(());
            };
            // A dedicated thread, because it blocks for as long as the model takes.
            if thread::Builder::new().name("python-model".to_owned()).spawn(work).is_ok() {
                // A dropped sender also means that the thread has ended.
                let _ = ended.await;
            }
        })
    }

    fn distributions(
        &self,
        requests: Vec<ModelRequest>,
        kept: Kept,
        sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async move {
            let (done, ended) = oneshot::channel();
            let model = self.this.upgrade().expect("the model is borrowed, so it is alive");
            let work = move || {
                let result = model.pass_distributions(&requests, kept, sink);
                drop(model);
                let _ = done.send(result);
            };
            let started = thread::Builder::new().name("python-model".to_owned()).spawn(work);
            let lost = |_| {
                let message = format!("The model `{}` was interrupted", self.name);
                Err(ModelError::new(ModelErrorKind::Unreachable, message))
            };
            match started {
                Ok(_) => ended.await.unwrap_or_else(lost),
                Err(error) => Err(ModelError::new(
                    ModelErrorKind::Unreachable,
                    format!("Cannot start a thread for the model `{}`: {error}", self.name),
                )),
            }
        })
    }
}
