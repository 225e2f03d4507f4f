//! A document that functions of a task change.
//!
//! Reference: the target and the options of a document are made from one object, so what the function of one changes,
//! the other sees, and records and hashes show.

use std::cell::RefCell;
use std::sync::Arc;

use lmeval_pycompat::Dict;

/// What functions have changed in one evaluated document. Examples have none: their documents are shared by threads.
#[derive(Debug, Default)]
pub(crate) struct Watch(RefCell<Option<Arc<Dict>>>);

impl Watch {
    /// The document as functions have left it.
    pub(super) fn current(&self, document: &Arc<Dict>) -> Arc<Dict> {
        Arc::clone(self.0.borrow().as_ref().unwrap_or(document))
    }

    /// Keeps what a function has changed.
    pub(super) fn set(&self, changed: Dict) {
        self.0.replace(Some(Arc::new(changed)));
    }

    /// The changed document, where it was changed.
    pub(super) fn into_changed(self) -> Option<Arc<Dict>> {
        self.0.into_inner()
    }
}
