//! Back ends: servers over HTTP, tokenizers, replay, n-gram and dummy models.

mod api;
pub mod http;
mod local;
mod pair;
mod registry;
mod stops;
mod tokenizer;
mod windows;

pub use lmeval_core::ModelSettings;
pub use registry::{create, models};
pub use stops::stops;
pub use tokenizer::{
    GgufTokenKind, GgufVocabulary, HubSettings, HuggingFaceTokenizer, SpecialToken, TiktokenTokenizer,
    TokenizerTemplate, wait,
};
pub use windows::{Window, windows};
