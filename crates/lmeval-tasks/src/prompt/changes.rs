//! Documents that functions of a task change.
//!
//! Reference: the target and the options of a document are made from one object, so what the function of one changes,
//! the other sees, and records and hashes show.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lmeval_pycompat::Dict;
use rustc_hash::FxHashMap;

/// What functions have changed in the documents that are watched. Documents are told apart by where they are in memory,
/// and are alive while they are watched.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<FxHashMap<usize, Option<Arc<Dict>>>>);

impl Changes {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<usize, Option<Arc<Dict>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch a document.
    pub(crate) fn watch(&self, document: &Arc<Dict>) {
        self.lock().insert(place(document), None);
    }

    /// Ends watching a document: the changed one, where it was changed.
    pub(crate) fn take(&self, document: &Arc<Dict>) -> Option<Arc<Dict>> {
        self.lock().remove(&place(document)).flatten()
    }

    /// The document as functions have left it.
    pub(crate) fn current(&self, document: &Arc<Dict>) -> Arc<Dict> {
        self.lock().get(&place(document)).cloned().flatten().unwrap_or_else(|| Arc::clone(document))
    }

    /// Keeps what a function has changed, if the document is watched.
    pub(crate) fn set(&self, document: &Arc<Dict>, changed: Dict) {
        if let Some(known) = self.lock().get_mut(&place(document)) {
            *known = Some(Arc::new(changed));
        }
    }
}

fn place(document: &Arc<Dict>) -> usize {
    Arc::as_ptr(document) as usize
}
