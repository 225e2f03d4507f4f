//! Models that run in-process.

mod arguments;
pub(crate) mod dummy;
mod generation;
pub(crate) mod ngram;
pub(crate) mod replay;
pub(crate) mod stand_in_judge;
mod template;
pub(crate) mod uniform;
