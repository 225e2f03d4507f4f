//! The documents that answers belong to.

use std::sync::Arc;

use lmeval_pycompat::Dict;

use super::error::FilterError;
use lmeval_core::{DocId, Documents};

/// The document of each request, loaded on demand.
#[derive(Clone, Copy, Debug)]
pub struct FilterDocs<'a> {
    documents: &'a dyn Documents,
    ids: &'a [DocId],
}

impl<'a> FilterDocs<'a> {
    /// Maps each request to the document with the given index.
    pub fn new(documents: &'a dyn Documents, ids: &'a [DocId]) -> Self {
        Self { documents, ids }
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The document index of each request.
    pub fn ids(&self) -> &'a [DocId] {
        self.ids
    }

    /// The document index of a request; for a request that does not exist, its own index.
    pub fn id(&self, request: usize) -> DocId {
        self.ids.get(request).copied().unwrap_or(DocId(request))
    }

    /// Loads the document of a request.
    pub fn get(&self, request: usize) -> Result<Arc<Dict>, FilterError> {
        let id = self.id(request);
        self.documents.get(id.0).map_err(|source| FilterError::Document { document: id, source })
    }
}
