//! Answers of a journal, looked up by request.

use lmeval_core::{Answer, Dialect, ModelRequest};
use lmeval_journal::{Error, SavedAnswers, StoredModel};

use crate::attribution::Fingerprints;
use crate::key::Keys;

/// The saved answers of one model.
#[derive(Debug)]
pub struct JournalAnswers {
    saved: SavedAnswers,
    keys: Keys,
}

impl JournalAnswers {
    /// The answers of a model that a run by the rules of `dialect` saved. Log-likelihoods are those of the model's scoring
    /// protocol, other answers do not depend on it.
    pub fn new(saved: SavedAnswers, model: &StoredModel, dialect: Dialect) -> Self {
        let keys = Keys { models: Fingerprints::of(model), per_document: false, dialect };
        Self { saved, keys }
    }

    /// The saved answer to a request, if there is one.
    pub fn find(&self, request: &ModelRequest) -> Result<Option<Answer>, Error> {
        let kind = request.request_type();
        if let Some(answer) = self.saved.get(&self.keys.of(request), kind)? {
            return Ok(Some(answer));
        }
        // The answers of some models depend on the document, and so do their keys.
        self.saved.get(&Keys { per_document: true, ..self.keys }.of(request), kind)
    }
}
