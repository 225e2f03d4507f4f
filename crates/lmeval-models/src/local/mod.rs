//! Models that run in-process.

mod arguments;
pub(crate) mod dummy;
mod generation;
pub(crate) mod ngram;
pub(crate) mod replay;
mod template;
pub(crate) mod uniform;
