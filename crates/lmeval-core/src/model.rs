//! Models: what answers requests.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_pycompat::{Dict, Value};

use crate::chat::ChatTemplate;
use crate::diagnostic::Diagnose;
use crate::document::DocId;
use crate::instance::{Arguments, RequestType};

/// What a model does later.
pub type ModelFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Takes the answers of a batch one by one: the place of the request in the batch, and what came of it.
pub type AnswerSink = Box<dyn FnMut(usize, Result<Answer, ModelError>) + Send>;

/// One request as a model gets it: one repeat of one question about one document.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest {
    /// The name of the task, without group or format.
    pub task_name: Arc<str>,
    /// The document.
    pub doc_id: DocId,
    /// The place among the requests of the document.
    pub idx: usize,
    /// Which time the same request is sent, from 0.
    pub repeat: usize,
    /// What is asked.
    pub arguments: Arguments,
    /// Images (`visual`) and sounds (`audio`).
    pub additional_args: Option<Arc<Dict>>,
}

impl ModelRequest {
    /// What the model is asked to do.
    pub fn request_type(&self) -> RequestType {
        match self.arguments {
            Arguments::Loglikelihood { .. } => RequestType::Loglikelihood,
            Arguments::Rolling { .. } => RequestType::LoglikelihoodRolling,
            Arguments::Generate { .. } => RequestType::GenerateUntil,
        }
    }

    /// The length of its texts, in bytes.
    pub fn size(&self) -> usize {
        match &self.arguments {
            Arguments::Loglikelihood { context, continuation } => context.size() + continuation.len(),
            Arguments::Rolling { text } => text.len(),
            Arguments::Generate { context, .. } => context.size(),
        }
    }

    /// The name of the request in messages.
    pub fn describe(&self) -> String {
        let Self { task_name, doc_id, idx, .. } = self;
        format!("`{task_name}`, document {doc_id}, {} {idx}", self.request_type())
    }
}

/// What a model answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// To [`Arguments::Loglikelihood`]: the natural logarithm of the continuation's probability, and whether it is what
    /// the model would have generated.
    Loglikelihood {
        /// The logarithm.
        logprob: f64,
        /// Whether every token of the continuation is the most likely one.
        is_greedy: bool,
    },
    /// To [`Arguments::Rolling`]: the natural logarithm of the text's probability.
    Rolling {
        /// The logarithm.
        logprob: f64,
    },
    /// To [`Arguments::Generate`]: the text.
    Text(Arc<str>),
}

impl Response {
    /// The value that scoring and logs see.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Loglikelihood { logprob, is_greedy } => {
                Value::tuple([Value::Float(*logprob), Value::Bool(*is_greedy)])
            }
            Self::Rolling { logprob } => Value::tuple([Value::Float(*logprob), Value::Bool(false)]),
            Self::Text(text) => Value::Str(Arc::clone(text)),
        }
    }
}

/// How many tokens an answer took, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
}

/// An answer and the facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The answer.
    pub response: Response,
    /// Whether the model was cut off by the limit of tokens.
    pub truncated: bool,
    /// What it took.
    pub usage: Usage,
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self { response, truncated: false, usage: Usage::default() }
    }
}

/// What went wrong between a request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// An argument of the model is wrong, or something that it needs is not there.
    Configuration,
    /// The model cannot do what is asked of it.
    Unsupported,
    /// The model does not know who asks, or refuses them.
    Authentication,
    /// The server cannot give what the task needs, as it runs now.
    Capability,
    /// The request itself is refused.
    Request,
    /// The model could not be reached, or failed, as often as it was tried.
    Unreachable,
    /// What came back is no answer.
    Answer,
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub struct ModelError {
    kind: ModelErrorKind,
    message: String,
    hints: Vec<String>,
    traceback: Option<Arc<str>>,
}

impl ModelError {
    /// An error with its message: a sentence without a full stop.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new(), traceback: None }
    }

    /// Adds what to try.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds what Python says about the failure.
    pub fn with_traceback(mut self, traceback: impl Into<Arc<str>>) -> Self {
        self.traceback = Some(traceback.into());
        self
    }

    /// What to try.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// What went wrong.
    pub fn kind(&self) -> ModelErrorKind {
        self.kind
    }

    /// Whether every other request would fail the same way, so that the run has to end.
    pub fn is_fatal(&self) -> bool {
        use ModelErrorKind::{Authentication, Capability, Configuration, Unsupported};
        matches!(self.kind, Configuration | Unsupported | Authentication | Capability)
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

impl Diagnose for ModelError {
    fn hints(&self) -> Vec<String> {
        self.hints.clone()
    }

    fn traceback(&self) -> Option<&str> {
        self.traceback.as_deref()
    }
}

/// What makes a model the one that it is: no answer of a model is ever given for one with another identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    /// The name of the back end.
    pub backend: String,
    /// Facts by name, in a fixed order: the model, its revision or what the server says of it, tokenizer, settings
    /// that change answers. No secrets.
    pub facts: Vec<(&'static str, String)>,
}

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.backend)?;
        for (name, fact) in &self.facts {
            write!(f, ", {name} {fact}")?;
        }
        Ok(())
    }
}

/// How requests are handed to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// How many requests at a time.
    pub batch_size: usize,
    /// How many batches at once. A model that adapts to its server holds some of them back.
    pub in_flight: usize,
}

/// The chat template of a model, and its source for the results.
#[derive(Clone, Debug)]
pub struct ModelTemplate {
    /// What turns a conversation into a prompt.
    pub template: Arc<dyn ChatTemplate>,
    /// The text of the template, where it is known here.
    pub source: Option<String>,
}

/// What a model counts while it works, for whoever watches.
#[derive(Debug, Default)]
pub struct ModelStats {
    /// Calls that are under way.
    pub in_flight: AtomicU64,
    /// How many calls may be under way now.
    pub concurrency: AtomicU64,
    /// Calls that had to be made again.
    pub retries: AtomicU64,
    /// Tokens of all texts so far, where the model computes in this process.
    pub tokens_asked: AtomicU64,
    /// Tokens that were computed for them: what texts begin with in common counts once.
    pub tokens_computed: AtomicU64,
    /// The last reason for one.
    trouble: Mutex<Option<String>>,
    warnings: Mutex<Warnings>,
}

/// What whoever reads the results has to know.
#[derive(Default)]
struct Warnings {
    all: Vec<String>,
    listener: Option<WarningListener>,
}

/// Hears of a warning when it comes up.
type WarningListener = Box<dyn Fn(&str) + Send + Sync>;

impl Debug for Warnings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(formatter)
    }
}

impl ModelStats {
    /// Counts a call that has to be made again.
    pub fn retry(&self, reason: String) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut trouble) = self.trouble.lock() {
            *trouble = Some(reason);
        }
    }

    /// Takes note of something that whoever reads the results has to know.
    pub fn warn(&self, warning: String) {
        if let Ok(mut warnings) = self.warnings.lock() {
            if let Some(listener) = &warnings.listener {
                listener(&warning);
            }
            warnings.all.push(warning);
        }
    }

    /// Tells a listener of each later warning when it comes up, as a run may be killed before its end.
    pub fn on_warning(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        if let Ok(mut warnings) = self.warnings.lock() {
            warnings.listener = Some(Box::new(listener));
        }
    }

    /// The warnings so far, each once.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.lock().map(|mut warnings| std::mem::take(&mut warnings.all)).unwrap_or_default()
    }

    /// The share of tokens that did not have to be computed, where the model counts them.
    pub fn saved(&self) -> Option<f64> {
        let asked = self.tokens_asked.load(Ordering::Relaxed);
        let computed = self.tokens_computed.load(Ordering::Relaxed);
        (asked > 0).then(|| 1.0 - (computed as f64 / asked as f64).min(1.0))
    }

    /// The last reason for a call that had to be made again, once.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().ok()?.take()
    }
}

/// A language model.
///
/// Requests come in batches, several at once, in no order that matters; the answers of a batch stand in the order of
/// its requests. What computes in this process implements [`LocalModel`](crate::LocalModel), which is simpler.
pub trait Model: Debug + Send + Sync {
    /// What makes the model the one that it is. May ask a server.
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>>;

    /// Whether the model can do what a request of this kind asks.
    fn supports(&self, _: RequestType) -> Result<(), ModelError> {
        Ok(())
    }

    /// The chat template: the one with the name, else the default one.
    fn chat_template(&self, _name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Err(ModelError::new(ModelErrorKind::Unsupported, "The model has no chat template"))
    }

    /// How requests are handed to the model.
    fn dispatch(&self) -> Dispatch;

    /// How many bytes of text make a batch full, where it has fewer requests than it may have. A model that works on large
    /// batches says so, so that long texts do not fill the memory.
    fn batch_bytes(&self) -> usize {
        usize::MAX
    }

    /// How long a batch that is not full waits for more requests. A model that gains much from full batches waits longer.
    fn fill_time(&self) -> Duration {
        Duration::from_millis(20)
    }

    /// Whether the answer depends on the number of the document, not only on what is asked.
    fn depends_on_document(&self) -> bool {
        false
    }

    /// Whether answers are worth keeping: not for a model that answers faster than a file can be read.
    fn is_worth_keeping(&self) -> bool {
        true
    }

    /// What results say of the model beside its arguments: number of parameters, special tokens and the like.
    fn facts(&self) -> ModelFacts {
        ModelFacts::default()
    }

    /// What the model counts while it works.
    fn stats(&self) -> Option<&ModelStats> {
        None
    }

    /// The run is to end: what is under way may still be answered, but nothing is tried again.
    fn wind_down(&self) {}

    /// Answers a batch: one result per request, in order.
    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>>;

    /// Answers a batch and hands each answer over as soon as it is there, in any order, each request once. A model that
    /// has answers long before the last one overrides this: what was handed over is kept, whatever happens to the rest.
    fn answer_each(&self, requests: Vec<ModelRequest>, mut sink: AnswerSink) -> ModelFuture<'_, ()> {
        Box::pin(async move {
            for (place, answer) in self.answer(requests).await.into_iter().enumerate() {
                sink(place, answer);
            }
        })
    }
}

/// What results say of a model.
#[derive(Clone, Debug, Default)]
pub struct ModelFacts {
    /// Entries of `config`, behind `model_args`.
    pub config: Dict,
    /// Entries of the result object itself: `tokenizer_eos_token` and its like, `max_length`.
    pub tokenizer: Dict,
    /// The batch sizes that a model has found out for itself.
    pub batch_sizes: Vec<i64>,
    /// The device that it computes on; `None` where nobody here knows, as of a server.
    pub device: Option<String>,
}
