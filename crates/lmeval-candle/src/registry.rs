//! Models of this crate by name.

use lmeval_core::ModelEntry;

use crate::model;

/// The back ends of this crate.
pub const MODELS: &[ModelEntry] = &[ModelEntry {
    names: &["hf", "hf-auto", "huggingface"],
    summary: "A model of a folder or the hub, computed in this process",
    create: model::create,
}];

/// The back end of a name, where there is one.
pub fn find(name: &str) -> Option<&'static ModelEntry> {
    MODELS.iter().find(|entry| entry.names.contains(&name))
}
