//! Requests to a model, as tasks build them.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};

use crate::dialect::Dialect;
use crate::document::DocId;
use crate::message::ChatMessage;

/// The maximum number of repeats of a request: a slot for every answer is allocated up front.
pub const MAX_REPEATS: usize = 100_000;

/// The kind of call on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestType {
    /// The log-likelihood of a continuation.
    Loglikelihood,
    /// The log-likelihood of a complete string.
    LoglikelihoodRolling,
    /// Generation until a stop string.
    GenerateUntil,
    /// The probabilities of the labels of options as the first token of an answer.
    ChoiceLetters,
}

impl RequestType {
    /// All kinds, in the order that listings show them.
    pub const ALL: [Self; 4] =
        [Self::Loglikelihood, Self::LoglikelihoodRolling, Self::GenerateUntil, Self::ChoiceLetters];

    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loglikelihood => "loglikelihood",
            Self::LoglikelihoodRolling => "loglikelihood_rolling",
            Self::GenerateUntil => "generate_until",
            Self::ChoiceLetters => "choice_letters",
        }
    }
}

impl fmt::Display for RequestType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The prompt before the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// A plain string.
    Text(Arc<str>),
    /// A conversation to which the model applies its chat template.
    Messages(Arc<[ChatMessage]>),
    /// A conversation serialised as JSON for a server.
    Json(Arc<str>),
}

impl Context {
    /// The string of a plain or JSON context.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Messages(_) | Self::Json(_) => None,
        }
    }

    /// The length of its strings in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Messages(messages) => messages.iter().map(|message| message.content.len()).sum(),
        }
    }

    /// The context as logs show it: a string, or a list of messages.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::Str(Arc::clone(text)),
            // Reference: a record with one field, which JSON serialises as a list.
            Self::Json(text) => Value::list([Value::Str(Arc::clone(text))]),
            Self::Messages(messages) => Value::list(messages.iter().map(ChatMessage::to_value)),
        }
    }

    /// The context without loss: like [`Context::to_value`], but a serialised conversation is a tuple.
    pub fn to_exact_value(&self) -> Value {
        match self {
            Self::Json(text) => Value::tuple([Value::Str(Arc::clone(text))]),
            Self::Text(_) | Self::Messages(_) => self.to_value(),
        }
    }

    /// Reads what [`Context::to_exact_value`] returns.
    pub fn from_exact_value(value: &Value) -> Option<Self> {
        match value {
            Value::Str(text) => Some(Self::Text(Arc::clone(text))),
            Value::Tuple(fields) => match fields.as_slice() {
                [Value::Str(text)] => Some(Self::Json(Arc::clone(text))),
                _ => None,
            },
            Value::List(messages) => {
                let messages: Option<Vec<ChatMessage>> =
                    messages.iter().map(ChatMessage::from_value).collect();
                messages.map(|messages| Self::Messages(Arc::from(messages)))
            }
            _ => None,
        }
    }

    /// Python's `str` of the context, from which the prompt hash is computed.
    pub fn hash_text(&self) -> String {
        match self {
            Self::Text(text) => text.as_ref().to_owned(),
            Self::Messages(_) => repr(&self.to_value()),
            Self::Json(text) => format!("JsonChatStr(prompt={})", repr(&Value::Str(Arc::clone(text)))),
        }
    }
}

impl From<&str> for Context {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// The inputs of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// Score a continuation after a context.
    Loglikelihood {
        /// The prompt before the continuation.
        context: Context,
        /// The scored string.
        continuation: Arc<str>,
    },
    /// Score a complete string.
    Rolling {
        /// The scored string.
        text: Arc<str>,
    },
    /// Generate after a context.
    Generate {
        /// The prompt to complete.
        context: Context,
        /// Generation settings: stop strings, sampling, token limit.
        kwargs: Arc<Dict>,
    },
    /// Compare the labels of options as the first token after a context. Only for models that cannot score a
    /// continuation.
    Letters {
        /// The prompt, which shows the labelled options.
        context: Context,
        /// The label of each option.
        labels: Arc<[Arc<str>]>,
    },
}

impl Arguments {
    /// The prompt before the answer; a rolling request has none.
    pub fn context(&self) -> Option<&Context> {
        match self {
            Self::Loglikelihood { context, .. }
            | Self::Generate { context, .. }
            | Self::Letters { context, .. } => Some(context),
            Self::Rolling { .. } => None,
        }
    }

    /// As [`Arguments::context`], to replace it.
    pub fn context_mut(&mut self) -> Option<&mut Context> {
        match self {
            Self::Loglikelihood { context, .. }
            | Self::Generate { context, .. }
            | Self::Letters { context, .. } => Some(context),
            Self::Rolling { .. } => None,
        }
    }

    /// The arguments as logs, hashes and Python see them. A rolling request has an empty context in some dialects.
    pub fn to_values(&self, rolling_context: bool) -> Vec<Value> {
        match self {
            Self::Loglikelihood { context, continuation } => {
                vec![context.to_value(), Value::Str(Arc::clone(continuation))]
            }
            Self::Rolling { text } if rolling_context => vec![Value::str(""), Value::Str(Arc::clone(text))],
            Self::Rolling { text } => vec![Value::Str(Arc::clone(text))],
            Self::Generate { context, kwargs } => vec![context.to_value(), Value::Dict(Arc::clone(kwargs))],
            Self::Letters { context, labels } => {
                let labels = labels.iter().map(|label| Value::Str(Arc::clone(label)));
                vec![context.to_value(), Value::list(labels)]
            }
        }
    }
}

/// Metadata of a request used in scoring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceMetadata {
    /// The request scores an option without its context, for mutual information.
    pub unconditional: bool,
    /// Keyword arguments passed to metrics in addition to those of the task.
    pub metric_kwargs: Option<Arc<Dict>>,
}

impl InstanceMetadata {
    /// The metadata as logs show it.
    pub fn to_dict(&self) -> Dict {
        let mut dict = Dict::new();
        if self.unconditional {
            dict.insert("acc_mutual_info", true);
        }
        if let Some(kwargs) = &self.metric_kwargs {
            dict.insert("metric_kwargs", Value::Dict(Arc::clone(kwargs)));
        }
        dict
    }
}

/// One request about one document, sent `repeats` times.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The kind of call on the model.
    pub request_type: RequestType,
    /// The task name, without group or format.
    pub task_name: Arc<str>,
    /// The document that the request belongs to.
    pub doc_id: DocId,
    /// The index among the requests of the document.
    pub idx: usize,
    /// How often the request is sent.
    pub repeats: usize,
    /// The type-specific inputs.
    pub arguments: Arguments,
    /// The gold answer as logs show it.
    pub target: Value,
    /// The gold answer as scoring uses it. With options: the index or indices, or `None` if the target is not among
    /// them. Otherwise the target itself.
    pub gold: Value,
    /// Metadata for scoring.
    pub metadata: InstanceMetadata,
    /// Images (`visual`) and sounds (`audio`).
    pub additional_args: Option<Arc<Dict>>,
}

impl Instance {
    /// The arguments as a list of values, in the form used by logs and hashes.
    pub fn args(&self, dialect: &Dialect) -> Vec<Value> {
        let mut args = self.arguments.to_values(dialect.rolling_context);
        args.extend(self.additional_args.clone().map(Value::Dict));
        args
    }
}
