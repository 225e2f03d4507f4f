//! Requests to a model.

use std::fmt;
use std::sync::Arc;

use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Value};

use crate::dialect::Dialect;
use crate::document::DocId;
use crate::message::ChatMessage;

/// How often a request may be sent at most: a place for every answer is made at once.
pub const MOST_REPEATS: usize = 100_000;

/// What a model is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestType {
    /// The log-likelihood of a continuation.
    Loglikelihood,
    /// The log-likelihood of a whole text.
    LoglikelihoodRolling,
    /// Free text until a stop string.
    GenerateUntil,
}

impl RequestType {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loglikelihood => "loglikelihood",
            Self::LoglikelihoodRolling => "loglikelihood_rolling",
            Self::GenerateUntil => "generate_until",
        }
    }
}

impl fmt::Display for RequestType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What comes before the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Text.
    Text(Arc<str>),
    /// A conversation that the model turns into text.
    Messages(Arc<[ChatMessage]>),
    /// A conversation as the JSON text that a server gets.
    Json(Arc<str>),
}

impl Context {
    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Messages(_) | Self::Json(_) => None,
        }
    }

    /// The length of its text, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Messages(messages) => messages.iter().map(|message| message.content.len()).sum(),
        }
    }

    /// The value that stands for the context in logs: text, or a list of messages.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::Str(Arc::clone(text)),
            // Reference: a record of one field, which JSON writes as a list.
            Self::Json(text) => Value::list([Value::Str(Arc::clone(text))]),
            Self::Messages(messages) => Value::list(messages.iter().map(ChatMessage::to_value)),
        }
    }

    /// Python's `str` of the context, which is what prompts are hashed by.
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

/// What a request asks about.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// How likely is the continuation after the context?
    Loglikelihood {
        /// What comes before.
        context: Context,
        /// What is scored.
        continuation: Arc<str>,
    },
    /// How likely is the text?
    Rolling {
        /// What is scored.
        text: Arc<str>,
    },
    /// What follows the context?
    Generate {
        /// What comes before.
        context: Context,
        /// How to generate.
        kwargs: Arc<Dict>,
    },
}

/// Facts about a request that scoring needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceMetadata {
    /// The request scores an option without its context, for mutual information.
    pub unconditional: bool,
    /// Keyword arguments that metrics are offered, beside those of the task.
    pub metric_kwargs: Option<Arc<Dict>>,
}

impl InstanceMetadata {
    /// The dictionary that logs show.
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

/// One request about one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// What the model is asked to do.
    pub request_type: RequestType,
    /// The name of the task, without group or format.
    pub task_name: Arc<str>,
    /// The document.
    pub doc_id: DocId,
    /// The place among the requests of the document.
    pub idx: usize,
    /// How many times the request is sent.
    pub repeats: usize,
    /// What is asked.
    pub arguments: Arguments,
    /// The gold answer as logs show it.
    pub target: Value,
    /// The gold answer as scoring uses it: among options the index or the indices, `None` where it is not one of
    /// them; otherwise the target.
    pub gold: Value,
    /// Facts that scoring needs.
    pub metadata: InstanceMetadata,
    /// Images (`visual`) and sounds (`audio`).
    pub additional_args: Option<Arc<Dict>>,
}

impl Instance {
    /// The arguments as a list of values, which is how logs and hashes see them.
    pub fn args(&self, dialect: &Dialect) -> Vec<Value> {
        let mut args = match &self.arguments {
            Arguments::Loglikelihood { context, continuation } => {
                vec![context.to_value(), Value::Str(Arc::clone(continuation))]
            }
            Arguments::Rolling { text } if dialect.rolling_context => {
                vec![Value::str(""), Value::Str(Arc::clone(text))]
            }
            Arguments::Rolling { text } => vec![Value::Str(Arc::clone(text))],
            Arguments::Generate { context, kwargs } => {
                vec![context.to_value(), Value::Dict(Arc::clone(kwargs))]
            }
        };
        args.extend(self.additional_args.clone().map(Value::Dict));
        args
    }
}
