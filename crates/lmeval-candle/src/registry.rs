//! Registration of this crate's models.

use lmeval_scoring::registry::ModelEntry;

use crate::model;

/// The models of this crate, for the registry.
pub fn models() -> Vec<ModelEntry> {
    vec![
        ModelEntry::named(&["hf", "hf-auto", "huggingface"], model::create)
            .summary("An in-process model from a folder or the hub"),
    ]
}
