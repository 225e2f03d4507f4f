//! Models of this crate by name.

use lmeval_core::registry::ModelEntry;

use crate::model;

/// The back ends of this crate, for a registry.
pub fn models() -> Vec<ModelEntry> {
    vec![
        ModelEntry::named(&["hf", "hf-auto", "huggingface"], model::create)
            .summary("A model of a folder or the hub, computed in this process"),
    ]
}
