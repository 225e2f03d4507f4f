//! The answers of all documents, and what filters make of them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use lmeval_pycompat::{Dict, Value};

use super::answered::AnsweredDocument;
use crate::document::{DocId, DocumentError, Documents, NoSuchDocument};
use crate::filters::{EnsembleError, FilterDocs, FilterEnsemble, Outcome, Responses};

/// Answered documents, as filters look them up.
#[derive(Debug)]
pub(super) struct AnsweredDocuments<'a> {
    documents: &'a [AnsweredDocument],
    /// Where each document is, made when a filter first asks for one.
    places: OnceLock<HashMap<DocId, usize>>,
}

impl<'a> AnsweredDocuments<'a> {
    pub(super) fn new(documents: &'a [AnsweredDocument]) -> Self {
        Self { documents, places: OnceLock::new() }
    }

    pub(super) fn all(&self) -> &'a [AnsweredDocument] {
        self.documents
    }

    /// What something else than filters made of the answers to all requests, which come document by document.
    pub(super) fn filtered(&self, values: Vec<Value>) -> Filtered {
        let bare = !values.iter().any(|value| matches!(value, Value::List(_)));
        let lists = values.into_iter().map(|value| match value {
            Value::List(items) => Arc::unwrap_or_clone(items),
            other => vec![other],
        });
        let outcome = Outcome { responses: lists.collect(), bare, ..Outcome::default() };
        Filtered { outcome, starts: self.starts() }
    }

    /// Where the requests of each document begin, and where those of the last one end.
    fn starts(&self) -> Vec<usize> {
        let mut starts = Vec::with_capacity(self.documents.len() + 1);
        starts.push(0);
        for document in self.documents {
            starts.push(starts.last().copied().unwrap_or_default() + document.answers.len());
        }
        starts
    }

    /// What filters make of the answers to all requests.
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
        let places = self
            .places
            .get_or_init(|| numbered().map(|(place, document)| (document.doc_id, place)).collect());
        let place = places.get(&DocId(index));
        let missing = NoSuchDocument { index, length: self.documents.len() };
        place.map(|place| Arc::clone(&self.documents[*place].document)).ok_or_else(|| missing.into())
    }
}

/// What filters made of the answers to all requests, document by document.
#[derive(Debug, Default)]
pub(super) struct Filtered {
    outcome: Outcome,
    /// Where the requests of each document begin, and where those of the last one end.
    starts: Vec<usize>,
}

impl Filtered {
    /// The filtered answers of the document at a place, one list per request.
    pub(super) fn of_document(&self, place: usize) -> &[Vec<Value>] {
        let range = self.starts.get(place).copied().zip(self.starts.get(place + 1).copied());
        range.and_then(|(start, end)| self.outcome.responses.get(start..end)).unwrap_or_default()
    }

    /// Whether each list holds one answer that stands for itself.
    pub(super) fn is_bare(&self) -> bool {
        self.outcome.bare
    }

    /// How many answers were replaced because nothing was found in them.
    pub(super) fn fallbacks(&self) -> usize {
        self.outcome.audits.iter().map(|audit| audit.total() as usize).sum()
    }
}
