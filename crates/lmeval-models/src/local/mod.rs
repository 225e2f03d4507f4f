//! Models that run in-process.

mod arguments;
pub(crate) mod dummy;
mod generation;
pub(crate) mod ngram;
pub(crate) mod replay;
pub(crate) mod stand_in_judge;
mod template;
pub(crate) mod uniform;

use std::sync::Arc;

use lmeval_core::{Model, ModelError, ModelErrorKind, ModelSettings};

/// A model of the Python package, which the command creates in a Python process.
pub(crate) fn on_torch(_: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    Err(ModelError::new(ModelErrorKind::Configuration, "The model runs on torch, in a Python process")
        .hint("Use it as the model of `lm-eval run` or of `simple_evaluate`"))
}
