//! Host functions for filters.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::filters::{Filter, FilterDocs, FilterError, Filtered, Responses};
use lmeval_scoring::{HostError, display_reference};

use crate::message::{Message, failed, wrong_type};
use crate::pool::Pool;
use crate::protocol::{encode, encode_dict};

/// Sends answers and their documents, each document once.
pub(crate) fn filter(
    message: Message<'_>,
    pool: &Pool,
    function: &Function,
    responses: &[Value],
    docs: &FilterDocs<'_>,
) -> Result<Vec<Value>, HostError> {
    let mut documents: Vec<Arc<Dict>> = Vec::new();
    let mut indices = Vec::with_capacity(docs.len());
    for request in 0..docs.len() {
        // The requests of a document are adjacent.
        if request == 0 || docs.id(request) != docs.id(request - 1) {
            let document = docs.get(request);
            documents.push(
                document.map_err(|error| failed(function, format!("Cannot read a document: {error}")))?,
            );
        }
        indices.push(Value::Int(documents.len() as i64 - 1));
    }
    let answer = message
        .with_list("responses", responses, encode)
        .with_list("documents", &documents, |text, document| encode_dict(text, document))
        .with("places", &Value::from(indices))
        .ask_once(pool)?;
    match answer {
        Value::List(items) => Ok(Arc::unwrap_or_clone(items)),
        other => Err(wrong_type(function, "a list with one item for each request", &other)),
    }
}

/// An instance of a Python class with the method `apply`.
#[derive(Debug)]
pub(crate) struct ClassFilter {
    class: Function,
    kwargs: Dict,
    pool: Arc<Pool>,
}

impl ClassFilter {
    /// Creates the object once, so that invalid arguments fail before anything is sent to a model.
    pub(crate) fn new(class: &Function, kwargs: &Dict, pool: &Arc<Pool>) -> Result<Self, HostError> {
        let made = Message::new("filter_class", class).with_dict("kwargs", kwargs);
        made.with("responses", &Value::None).ask_once(pool)?;
        Ok(Self { class: class.clone(), kwargs: kwargs.clone(), pool: Arc::clone(pool) })
    }
}

impl Filter for ClassFilter {
    fn apply(&self, responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        self.apply_bare(responses.into_iter().map(Value::from).collect(), docs)
    }

    fn apply_bare(&self, values: Vec<Value>, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        let message = Message::new("filter_class", &self.class).with_dict("kwargs", &self.kwargs);
        let returned = filter(message, &self.pool, &self.class, &values, docs).map_err(|source| {
            FilterError::Host { filter: display_reference(&self.class.reference), source }
        })?;
        if returned.len() != values.len() {
            return Err(FilterError::Length { given: values.len(), returned: returned.len() });
        }
        if !returned.iter().all(|value| matches!(value, Value::List(_) | Value::Tuple(_))) {
            return Ok(Filtered::from_bare(returned));
        }
        let lists = returned.into_iter().map(|value| match value {
            Value::List(items) | Value::Tuple(items) => Arc::unwrap_or_clone(items),
            other => vec![other],
        });
        Ok(lists.collect::<Responses>().into())
    }

    fn calls_task_code(&self) -> bool {
        true
    }
}
