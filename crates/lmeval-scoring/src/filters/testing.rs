//! Helpers for the tests of filters.

use lmeval_pycompat::{Dict, Value};

use super::{Filter, FilterContext, FilterDocs, FilterError, FilterSpec, Filtered, Responses};
use crate::registry::Registry;
use lmeval_core::{DocId, MemoryDocuments};

/// Answers that are strings.
pub(super) fn texts(answers: &[&[&str]]) -> Responses {
    answers.iter().map(|list| list.iter().map(|text| Value::str(*text)).collect()).collect()
}

/// Calls a function with `count` empty documents.
pub(super) fn with_docs<T>(count: usize, call: impl FnOnce(&FilterDocs<'_>) -> T) -> T {
    with_documents(vec![Dict::new(); count], call)
}

/// Calls a function with documents.
pub(super) fn with_documents<T>(documents: Vec<Dict>, call: impl FnOnce(&FilterDocs<'_>) -> T) -> T {
    let ids: Vec<DocId> = (0..documents.len()).map(DocId).collect();
    call(&FilterDocs::new(&MemoryDocuments::new(documents), &ids))
}

/// Applies a filter to answers to empty documents.
pub(super) fn apply(filter: &dyn Filter, responses: Responses) -> Result<Filtered, FilterError> {
    with_docs(responses.len(), |docs| filter.apply(responses, docs))
}

/// Creates a filter and applies it to a single answer.
pub(super) fn filter_one(step: &FilterSpec, answer: impl Into<Value>) -> Result<Value, FilterError> {
    let filter = Registry::default().filter(step, &FilterContext::default())?;
    let filtered = apply(&*filter, vec![vec![answer.into()]])?;
    Ok(filtered.responses[0][0].clone())
}
