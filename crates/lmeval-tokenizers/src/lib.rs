//! Tokenizers: of a folder or the hub, of a GGUF file, of OpenAI.

mod chat;
mod class;
mod gguf;
mod huggingface;
mod locate;
mod rules;
mod special;
mod tiktoken;

pub use chat::TokenizerTemplate;
pub use gguf::{GgufTokenKind, GgufVocabulary};
pub use huggingface::{HuggingFaceTokenizer, SpecialToken};
pub use locate::locate;
pub use tiktoken::TiktokenTokenizer;
