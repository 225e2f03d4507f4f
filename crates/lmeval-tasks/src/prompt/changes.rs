//! Documents that the functions of a task modify.
//!
//! Reference: target and options are computed from the same document object, so a function's changes are visible to the
//! other function, in records and in hashes.

use std::cell::RefCell;
use std::sync::Arc;

use lmeval_pycompat::Dict;

/// The changes that functions made to one evaluated document. Examples are not tracked: threads share their documents.
#[derive(Debug, Default)]
pub(crate) struct ChangedDocument(RefCell<Option<Arc<Dict>>>);

impl ChangedDocument {
    /// The document with the changes so far.
    pub(super) fn current(&self, document: &Arc<Dict>) -> Arc<Dict> {
        Arc::clone(self.0.borrow().as_ref().unwrap_or(document))
    }

    /// Records a changed document.
    pub(super) fn set(&self, changed: Dict) {
        self.0.replace(Some(Arc::new(changed)));
    }

    /// The changed document; `None` if it was not changed.
    pub(super) fn into_changed(self) -> Option<Arc<Dict>> {
        self.0.into_inner()
    }
}
