//! Back ends: servers over HTTP, replay, n-gram and dummy models.

mod api;
pub mod http;
mod local;
mod pair;
mod registry;
mod tokenizer;

pub use lmeval_core::{ModelEntry, ModelSettings};
pub use registry::{MODELS, create, find, unknown};
