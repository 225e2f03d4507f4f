//! The answers of all documents, before and after filtering.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use lmeval_pycompat::{Dict, Value};

use super::answered::AnsweredDocument;
use crate::filters::{EnsembleError, FilterDocs, FilterEnsemble, Outcome, Responses, StepAudit};
use lmeval_core::{DocId, DocumentError, Documents, NoSuchDocument};

/// Answered documents, as seen by filters.
#[derive(Debug)]
pub(super) struct AnsweredDocuments<'a> {
    documents: &'a [AnsweredDocument],
    /// The index of each document, built on the first lookup.
    indices: OnceLock<HashMap<DocId, usize>>,
}

impl<'a> AnsweredDocuments<'a> {
    pub(super) fn new(documents: &'a [AnsweredDocument]) -> Self {
        Self { documents, indices: OnceLock::new() }
    }

    pub(super) fn all(&self) -> &'a [AnsweredDocument] {
        self.documents
    }

    /// Wraps answers that were filtered by other means; `values` has one item per request, document by document.
    pub(super) fn filtered(&self, values: Vec<Value>) -> Filtered {
        let bare = !values.iter().any(|value| matches!(value, Value::List(_)));
        let lists = values.into_iter().map(|value| match value {
            Value::List(items) => Arc::unwrap_or_clone(items),
            other => vec![other],
        });
        let outcome = Outcome { responses: lists.collect(), bare, ..Outcome::default() };
        Filtered { outcome, starts: self.starts() }
    }

    /// The offset of each document's first request, and the end of the last document.
    fn starts(&self) -> Vec<usize> {
        let mut starts = Vec::with_capacity(self.documents.len() + 1);
        starts.push(0);
        for document in self.documents {
            starts.push(starts.last().copied().unwrap_or_default() + document.answers.len());
        }
        starts
    }

    /// Applies filters to the answers to all requests.
    pub(super) fn filter(&self, filters: &FilterEnsemble) -> Result<Filtered, EnsembleError> {
        let requests = self.documents.iter().flat_map(|document| &document.answers);
        let responses: Responses = requests.clone().map(|answer| answer.responses.clone()).collect();
        let ids: Vec<DocId> = requests.map(|answer| answer.instance.doc_id).collect();
        let outcome = filters.apply(responses, &FilterDocs::new(self, &ids))?;
        Ok(Filtered { outcome, starts: self.starts() })
    }
}

impl Documents for AnsweredDocuments<'_> {
    fn len(&self) -> usize {
        self.documents.len()
    }

    fn columns(&self) -> &[String] {
        &[]
    }

    fn get(&self, index: usize) -> Result<Arc<Dict>, DocumentError> {
        let numbered = || self.documents.iter().enumerate();
        let indices = self
            .indices
            .get_or_init(|| numbered().map(|(position, document)| (document.doc_id, position)).collect());
        let found = indices.get(&DocId(index));
        let missing = NoSuchDocument { index, length: self.documents.len() };
        found.map(|position| Arc::clone(&self.documents[*position].document)).ok_or_else(|| missing.into())
    }
}

/// The filtered answers to all requests, document by document.
#[derive(Debug, Default)]
pub(super) struct Filtered {
    outcome: Outcome,
    /// The offset of each document's first request, and the end of the last document.
    starts: Vec<usize>,
}

impl Filtered {
    /// The filtered answers of the document at an index, one list per request.
    pub(super) fn of_document(&self, index: usize) -> &[Vec<Value>] {
        let range = self.starts.get(index).copied().zip(self.starts.get(index + 1).copied());
        range.and_then(|(start, end)| self.outcome.responses.get(start..end)).unwrap_or_default()
    }

    /// Whether each list holds a single unwrapped answer.
    pub(super) fn is_bare(&self) -> bool {
        self.outcome.bare
    }

    /// The number of answers replaced by a fallback because a filter found no match.
    pub(super) fn fallbacks(&self) -> usize {
        self.outcome.audits.iter().map(StepAudit::total).sum()
    }

    /// The indices of a request's answers in which a filter found nothing; the request is the one at an index of the
    /// document at an index.
    pub(super) fn unmatched(&self, document: usize, request: usize) -> impl Iterator<Item = usize> {
        let request = self.starts.get(document).map_or(usize::MAX, |start| start + request);
        let of_step = move |audit: &'_ StepAudit| audit.fallbacks.get(request).cloned().unwrap_or_default();
        self.outcome.audits.iter().flat_map(of_step).map(|index| index as usize)
    }
}
