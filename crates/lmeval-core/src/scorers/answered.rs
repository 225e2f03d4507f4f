//! Documents with the answers of a model.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::document::DocId;
use crate::instance::Instance;

/// A request and its answers.
#[derive(Clone, Debug)]
pub struct AnsweredInstance {
    /// The request.
    pub instance: Instance,
    /// The answers, one per repeat: a text, or a tuple of log-likelihood and whether the continuation is the greedy one.
    pub responses: Vec<Value>,
    /// How many of the answers were cut off before the model ended them.
    pub truncated: usize,
}

impl AnsweredInstance {
    /// A request with answers that ended by themselves.
    pub fn new(instance: Instance, responses: Vec<Value>) -> Self {
        Self { instance, responses, truncated: 0 }
    }
}

/// A document, its requests and their answers.
#[derive(Clone, Debug)]
pub struct AnsweredDocument {
    /// The number of the document.
    pub doc_id: DocId,
    /// The document; it may be empty where nothing looks at it, see [`TaskScorer::needs`].
    ///
    /// [`TaskScorer::needs`]: super::TaskScorer::needs
    pub document: Arc<Dict>,
    /// Its options, without the delimiter that stands before them in requests.
    pub choices: Option<Arc<Vec<Value>>>,
    /// Its requests, at least one, in the order of their `idx`.
    pub answers: Vec<AnsweredInstance>,
}

/// The value of a log-likelihood answer.
pub fn loglikelihood_response(logprob: f64, is_greedy: bool) -> Value {
    Value::tuple([Value::Float(logprob), Value::Bool(is_greedy)])
}
