//! Tokenizers: of a folder or the hub, of a GGUF file, of OpenAI, of a server.

mod chat;
mod choose;
mod class;
mod encoder;
mod gguf;
mod hub;
mod hub_model;
mod huggingface;
mod remote;
mod rules;
mod special;
mod tiktoken;

use lmeval_core::{ModelError, ModelErrorKind};

pub use chat::TokenizerTemplate;
pub(crate) use choose::choose;
pub(crate) use encoder::{Encoder, Tokenizer};
pub use gguf::{GgufTokenKind, GgufVocabulary};
pub use hub::HubSettings;
pub use huggingface::{HuggingFaceTokenizer, SpecialToken};
pub(crate) use remote::{server_query, server_root};
pub use tiktoken::TiktokenTokenizer;

/// Runs a future to its end on a thread of its own: models are made within a runtime and without one.
pub fn wait<T: Send>(future: impl Future<Output = Result<T, ModelError>> + Send) -> Result<T, ModelError> {
    let failed = |problem: &str| {
        ModelError::new(ModelErrorKind::Configuration, format!("The model cannot be made: {problem}"))
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| failed(&error.to_string()))?.block_on(future)
        });
        waiting.join().unwrap_or_else(|_| Err(failed("its preparation ended unexpectedly")))
    })
}
