//! How `lm-eval run` does what its settings say.

pub(crate) mod events;
pub(crate) mod interrupt;
pub(crate) mod model;
pub(crate) mod output;
