//! Back ends: servers over HTTP, tokenizers, replay, n-gram and dummy models.

mod api;
pub mod http;
mod local;
mod pair;
mod registry;
mod settings;
mod stops;
mod tokenizer;
mod windows;

#[doc(hidden)]
pub use api::read_any as fuzz_answer;
pub use registry::{MODELS, ModelEntry, create, find, unknown};
pub use settings::ModelSettings;
pub use stops::stops;
pub use tokenizer::{
    GgufTokenKind, GgufVocabulary, HubSettings, HuggingFaceTokenizer, SpecialToken, TiktokenTokenizer,
    TokenizerTemplate, wait,
};
pub use windows::{Window, windows};
