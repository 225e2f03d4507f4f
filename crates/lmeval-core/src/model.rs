//! The [`Model`] trait, its requests and its answers.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lmeval_pycompat::{Dict, Value};

use crate::chat::ChatTemplate;
use crate::check::CheckSink;
use crate::distribution::{DistributionSink, Kept};
use crate::document::DocId;
use crate::instance::{Arguments, RequestType};
use crate::letters::{Letter, letters_value};
use crate::model_error::{ModelError, ModelErrorKind};
use crate::progress::Progress;
use crate::trace::Trace;

/// The boxed future that methods of [`Model`] return.
pub type ModelFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Receives the answers of a batch one by one: the index of the request in the batch, and its result.
pub type AnswerSink = Box<dyn FnMut(usize, Result<Answer, ModelError>) + Send>;

/// One request as a model receives it: one repeat of one instance of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest {
    /// The task name, without group or format.
    pub task_name: Arc<str>,
    /// The document that the request belongs to.
    pub doc_id: DocId,
    /// The index among the requests of the document.
    pub idx: usize,
    /// The repeat, counted from 0.
    pub repeat: usize,
    /// The type of the request and its inputs.
    pub arguments: Arguments,
    /// Images (`visual`) and sounds (`audio`).
    pub additional_args: Option<Arc<Dict>>,
    /// The document itself, if the request comes from a task in this process. Only Python models can read it.
    pub document: Option<Arc<Dict>>,
    /// Where a model that [streams](ModelTraits::streams) notes the beginning of its answer, if it is to be saved.
    pub progress: Option<Arc<Progress>>,
}

impl ModelRequest {
    /// The kind of call on the model.
    pub fn request_type(&self) -> RequestType {
        match self.arguments {
            Arguments::Loglikelihood { .. } => RequestType::Loglikelihood,
            Arguments::Rolling { .. } => RequestType::LoglikelihoodRolling,
            Arguments::Generate { .. } => RequestType::GenerateUntil,
            Arguments::Letters { .. } => RequestType::ChoiceLetters,
        }
    }

    /// The error of a model that cannot answer requests of this type.
    pub fn unsupported(&self) -> ModelError {
        let message = format!("The model does not answer `{}` requests", self.request_type());
        ModelError::new(ModelErrorKind::Unsupported, message)
    }

    /// The total length of its strings in bytes.
    pub fn size(&self) -> usize {
        match &self.arguments {
            Arguments::Loglikelihood { context, continuation } => context.size() + continuation.len(),
            Arguments::Rolling { text } => text.len(),
            Arguments::Generate { context, .. } | Arguments::Letters { context, .. } => context.size(),
        }
    }

    /// The request as messages name it.
    pub fn describe(&self) -> String {
        let Self { task_name, doc_id, idx, .. } = self;
        format!("`{task_name}`, document {doc_id}, {} {idx}", self.request_type())
    }
}

/// A model's answer, one variant per request type.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// For [`Arguments::Loglikelihood`].
    Loglikelihood {
        /// The natural logarithm of the continuation's probability.
        logprob: f64,
        /// Whether greedy decoding would have produced the continuation.
        is_greedy: bool,
    },
    /// For [`Arguments::Rolling`].
    Rolling {
        /// The natural logarithm of the string's probability.
        logprob: f64,
    },
    /// For [`Arguments::Generate`]: the generated string.
    Text(Arc<str>),
    /// For [`Arguments::Letters`]: the probability of each label.
    Letters(Arc<[Letter]>),
}

impl Response {
    /// The answer as scoring and logs see it.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Loglikelihood { logprob, is_greedy } => {
                Value::tuple([Value::Float(*logprob), Value::Bool(*is_greedy)])
            }
            Self::Rolling { logprob } => Value::tuple([Value::Float(*logprob), Value::Bool(false)]),
            Self::Text(text) => Value::Str(Arc::clone(text)),
            Self::Letters(letters) => letters_value(letters),
        }
    }
}

/// The number of tokens used, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens in the prompt.
    pub prompt_tokens: u64,
    /// Tokens in the answer.
    pub completion_tokens: u64,
}

/// How a generation ended. Only a complete one shows what the model would have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// At a stop string, at the end of the text, or where the server does not say.
    #[default]
    Complete,
    /// At the token limit.
    CutOff,
    /// A content filter, or the model itself, refused to answer.
    Refused,
}

impl Finish {
    const ALL: [Self; 3] = [Self::Complete, Self::CutOff, Self::Refused];

    /// The code in journals and messages between processes.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The name that servers use as finish reason, and samples files as well.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Complete => "stop",
            Self::CutOff => "length",
            Self::Refused => "content_filter",
        }
    }

    /// The one with this reason.
    pub fn from_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|finish| finish.reason() == reason)
    }

    /// The one with a code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|finish| finish.code() == code)
    }
}

/// A response with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The value that is scored.
    pub response: Response,
    /// How a generation ended.
    pub finish: Finish,
    /// The tokens used.
    pub usage: Usage,
    /// What was generated besides the answer, if it is known.
    pub trace: Option<Arc<Trace>>,
}

impl Answer {
    /// A complete response with the tokens it used.
    pub fn new(response: Response, usage: Usage) -> Self {
        Self { response, finish: Finish::Complete, usage, trace: None }
    }

    /// The reasoning before the answer; `None` if there was none, or it is unknown.
    pub fn reasoning(&self) -> Option<&Arc<str>> {
        let reasoning = self.trace.as_ref().map(|trace| &trace.reasoning);
        reasoning.filter(|reasoning| !reasoning.trim().is_empty())
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self::new(response, Usage::default())
    }
}

/// How a model can score the options of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionScoring {
    /// By the log-likelihood of each option.
    Continuations,
    /// By the probabilities of labels as the first token of an answer.
    Letters,
    /// Not at all: it can only write an answer.
    Generations,
}

impl OptionScoring {
    const ALL: [Self; 3] = [Self::Continuations, Self::Letters, Self::Generations];

    /// The name in messages between processes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Continuations => "continuations",
            Self::Letters => "letters",
            Self::Generations => "generations",
        }
    }

    /// The one with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scoring| scoring.name() == name)
    }
}

/// The identity of a model. Saved answers are reused only for a model with the same identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    /// The name of the backend.
    pub backend: String,
    /// Facts by name, in a fixed order: the model, its revision or the server's description of it, the tokenizer, and
    /// every setting that changes answers. No secrets.
    pub facts: Vec<(&'static str, String)>,
}

/// The facts of an identity that only a server can report. A run whose answers are all saved looks them up under the last
/// identity with the same other facts, without contacting the server.
pub const REPORTED_FACTS: [&str; 4] = ["serves", "reports", "tokenizer", SCORING_FACT];

/// The fact that names the protocol of log-likelihoods, in the identity under which they are saved; absent for the
/// default protocol.
pub const SCORING_FACT: &str = "scoring";

/// The generation setting with fields of a request's body that improve an answer but need not be supported. A model with
/// [`ModelTraits::takes_optional_fields`] sends them, and leaves them out once its server has refused them.
pub const OPTIONAL_FIELDS: &str = "optional_fields";

impl ModelIdentity {
    /// A fact by its name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact.as_str())
    }
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

/// What a run has to know about a model before it sends requests. None of it changes during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelTraits {
    /// The maximum number of requests in a batch.
    pub batch_size: usize,
    /// The number of bytes at which a batch is full even if it has fewer requests than allowed. Models with large batches
    /// set this so that long sequences do not exhaust memory.
    pub batch_bytes: usize,
    /// The maximum number of concurrent batches. A model that adapts to its server may delay some of them.
    pub in_flight: usize,
    /// How long a partial batch waits for more requests. Longer is better for models that benefit greatly from full
    /// batches.
    pub fill_time: Duration,
    /// How the options of a question can be scored.
    pub option_scoring: OptionScoring,
    /// Whether the model is known to reason before it answers, so that an answer needs many more tokens than its text.
    pub reasons: bool,
    /// Whether requests may have [`OPTIONAL_FIELDS`].
    pub takes_optional_fields: bool,
    /// Whether requests may have images and sounds. A model that takes none would answer without having seen them.
    pub takes_media: bool,
    /// Whether the answer depends on the document id, not only on the request's arguments.
    pub depends_on_document: bool,
    /// Whether the model may read [`ModelRequest::document`], so that documents are kept until they are answered.
    pub reads_documents: bool,
    /// Whether the model gets a request even if an equal one was answered in the same run: an object of the calling program
    /// may count on each call, as calibration does.
    pub wants_every_request: bool,
    /// Whether answers are worth saving. False for models that answer faster than a file can be read.
    pub is_worth_saving: bool,
    /// Whether generations arrive piece by piece, so that their beginnings can be saved.
    pub streams: bool,
    /// Whether answers are looked up, so that a repeated request costs nothing and its answer need not be kept in memory.
    pub is_lookup: bool,
}

impl Default for ModelTraits {
    /// A server that takes one request at a time, whose answers depend on nothing but the request and are saved.
    fn default() -> Self {
        Self {
            batch_size: 1,
            batch_bytes: usize::MAX,
            in_flight: 1,
            fill_time: Duration::from_millis(20),
            option_scoring: OptionScoring::Continuations,
            reasons: false,
            takes_optional_fields: false,
            takes_media: false,
            depends_on_document: false,
            reads_documents: false,
            wants_every_request: false,
            is_worth_saving: true,
            streams: false,
            is_lookup: false,
        }
    }
}

impl ModelTraits {
    /// A model that computes in this process: batches of 64, one per core at a time.
    pub fn local() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { batch_size: 64, in_flight: cores, ..Self::default() }
    }
}

/// A model's chat template, and its source for the results.
#[derive(Clone, Debug)]
pub struct ModelTemplate {
    /// Renders conversations as prompts.
    pub template: Arc<dyn ChatTemplate>,
    /// The source of the template, if known locally.
    pub source: Option<String>,
}

/// Live counters of a model, for progress displays.
#[derive(Debug, Default)]
pub struct ModelStats {
    /// Calls in flight.
    pub in_flight: AtomicU64,
    /// The current limit on calls in flight.
    pub concurrency: AtomicU64,
    /// Calls that were retried.
    pub retries: AtomicU64,
    /// Tokens of all sequences so far, for models that run in this process.
    pub tokens_asked: AtomicU64,
    /// Tokens computed for those sequences: shared prefixes are computed once.
    pub tokens_computed: AtomicU64,
    /// Tokens of answers that have arrived so far, for servers that stream.
    pub tokens_received: AtomicU64,
    /// The reason for the latest retry.
    retry_reason: Mutex<Option<String>>,
    warnings: Mutex<Warnings>,
    waiting: Mutex<Waiting>,
}

/// The reason why the model does not answer yet.
#[derive(Default)]
struct Waiting {
    now: Option<String>,
    listener: Option<WarningListener>,
}

impl Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now.fmt(formatter)
    }
}

/// Warnings for whoever reads the results.
#[derive(Default)]
struct Warnings {
    all: Vec<String>,
    listener: Option<WarningListener>,
}

/// Called with each warning as it is raised.
type WarningListener = Arc<dyn Fn(&str) + Send + Sync>;

impl Debug for Warnings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(formatter)
    }
}

impl ModelStats {
    /// Counts a retry and remembers its reason.
    pub fn retry(&self, reason: String) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        *lock(&self.retry_reason) = Some(reason);
    }

    /// Records a warning for whoever reads the results.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        // Listeners are called without the lock: they may ask for warnings, or take their time.
        let listener = {
            let mut warnings = lock(&self.warnings);
            warnings.all.push(warning.clone());
            warnings.listener.clone()
        };
        if let Some(listener) = listener {
            listener(&warning);
        }
    }

    /// Reports the warnings so far and each later one immediately, since a run may be killed before its end.
    pub fn on_warning(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        let listener: WarningListener = Arc::new(listener);
        let before = {
            let mut warnings = lock(&self.warnings);
            warnings.listener = Some(Arc::clone(&listener));
            warnings.all.clone()
        };
        for warning in before {
            listener(&warning);
        }
    }

    /// Sets the reason why the model does not answer yet, such as a server that refuses connections; `None` if it does.
    pub fn wait_for(&self, reason: Option<String>) {
        let listener = {
            let mut waiting = lock(&self.waiting);
            let is_new = waiting.now != reason;
            waiting.now.clone_from(&reason);
            waiting.listener.clone().filter(|_| is_new)
        };
        if let (Some(reason), Some(listener)) = (reason, listener) {
            listener(&reason);
        }
    }

    /// Reports each later reason for waiting immediately.
    pub fn on_wait(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        lock(&self.waiting).listener = Some(Arc::new(listener));
    }

    /// Reports an event that is not a problem, such as a server that joined.
    pub fn note(&self, note: &str) {
        let listener = lock(&self.waiting).listener.clone();
        if let Some(listener) = listener {
            listener(note);
        }
    }

    /// The reason why the model does not answer yet.
    pub fn waiting(&self) -> Option<String> {
        lock(&self.waiting).now.clone()
    }

    /// The warnings so far; cleared by the call.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.warnings).all)
    }

    /// The fraction of tokens that did not have to be computed, if the model counts them.
    pub fn saved(&self) -> Option<f64> {
        let asked = self.tokens_asked.load(Ordering::Relaxed);
        let computed = self.tokens_computed.load(Ordering::Relaxed);
        (asked > 0).then(|| 1.0 - (computed as f64 / asked as f64).min(1.0))
    }

    /// The reason for the latest retry; cleared by the call.
    pub fn take_retry_reason(&self) -> Option<String> {
        lock(&self.retry_reason).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A language model.
///
/// Batches arrive concurrently and in arbitrary order; the answers of a batch have the order of its requests. Models
/// that compute in this process can implement the simpler [`LocalModel`](crate::LocalModel) instead.
pub trait Model: Debug + Send + Sync {
    /// What a run has to know before it sends requests.
    fn traits(&self) -> ModelTraits {
        ModelTraits::default()
    }

    /// The identity under which answers are saved. May query a server.
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>>;

    /// The identity without the facts that a server must be asked for ([`REPORTED_FACTS`]). `None` if
    /// [`identity`](Self::identity) contacts no server.
    fn known_identity(&self) -> Option<ModelIdentity> {
        None
    }

    /// The identity without facts that differ between copies of the model on several machines, such as paths and the times
    /// of files. `None` if there are no such facts.
    fn portable_identity(&self) -> Option<ModelIdentity> {
        None
    }

    /// Saved answers of a model with these facts are used without contacting the server. `fact` looks one up by name.
    fn assume(&self, _fact: &dyn Fn(&str) -> Option<String>) {}

    /// Waits until the model can answer. Fails for mistakes that every request would repeat, such as a wrong address.
    fn first_contact(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async { Ok(()) })
    }

    /// Checks whether runs with this model will work, and how well. Models in this process have nothing to check.
    fn examine(&self, _report: CheckSink) -> ModelFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Settles how log-likelihoods are obtained, before the first one is requested. `Some` names a protocol other
    /// than the default one; it becomes part of the key of such answers, so that answers of different protocols do not
    /// mix. May query a server.
    fn scoring_protocol(&self) -> ModelFuture<'_, Result<Option<String>, ModelError>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether [`scoring_protocol`](Self::scoring_protocol) may name this protocol. Saved log-likelihoods of such a one
    /// are used without contacting the server.
    fn may_score_by(&self, protocol: Option<&str>) -> bool {
        protocol.is_none()
    }

    /// Called after the last answer of a run, to complete [`facts`](Self::facts).
    fn conclude(&self) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async { Ok(()) })
    }

    /// Whether consecutive log-likelihood requests with the same context should be in one batch, whatever the batch
    /// size. Read before each batch.
    fn batches_contexts(&self) -> bool {
        false
    }

    /// Fails if the model cannot answer requests of this type.
    fn supports(&self, _: RequestType) -> Result<(), ModelError> {
        Ok(())
    }

    /// The chat template of that name, or the default one.
    fn chat_template(&self, _name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        Err(ModelError::new(ModelErrorKind::Unsupported, "The model has no chat template"))
    }

    /// Metadata of the model for the results: parameter count, special tokens and so on.
    fn facts(&self) -> ModelFacts {
        ModelFacts::default()
    }

    /// Live counters, if the model keeps any.
    fn stats(&self) -> Option<&ModelStats> {
        None
    }

    /// The run is stopping: calls in flight may still be answered, but nothing is retried.
    fn wind_down(&self) {}

    /// Answers a batch: one result per request, in the same order.
    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>>;

    /// Answers a batch and passes each answer on as soon as it arrives, in any order, each request once. Override
    /// this if some answers arrive long before the last one: answers passed on are saved even if the rest of the
    /// batch fails.
    fn answer_each(&self, requests: Vec<ModelRequest>, mut sink: AnswerSink) -> ModelFuture<'_, ()> {
        Box::pin(async move {
            for (place, answer) in self.answer(requests).await.into_iter().enumerate() {
                sink(place, answer);
            }
        })
    }

    /// The distributions over the next token in the place of each scored token of log-likelihood requests, of rolling ones
    /// as well. Returns when all were passed on, or the sink wants no more; an error means that no request can be answered.
    fn distributions(
        &self,
        _requests: Vec<ModelRequest>,
        _kept: Kept,
        _sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async {
            let message = "The model does not return the probabilities of tokens";
            Err(ModelError::new(ModelErrorKind::Unsupported, message))
        })
    }
}

/// Metadata of a model for the results file.
#[derive(Clone, Debug, Default)]
pub struct ModelFacts {
    /// Entries of `config`, after `model_args`.
    pub config: Dict,
    /// Top-level entries of the results: `tokenizer_eos_token` and similar, `max_length`.
    pub tokenizer: Dict,
    /// The batch sizes that the model determined automatically.
    pub batch_sizes: Vec<i64>,
    /// The device it computes on; `None` if unknown, as for a server.
    pub device: Option<String>,
}
