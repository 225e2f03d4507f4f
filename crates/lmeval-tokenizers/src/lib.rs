//! Tokenizers from local folders, the hub, GGUF files and OpenAI.

mod chat;
mod class;
mod gguf;
mod huggingface;
mod locate;
mod pipeline;
mod special;
mod tiktoken;

pub use chat::TokenizerTemplate;
pub use gguf::{GgufTokenKind, GgufVocabulary};
pub use huggingface::{HuggingFaceTokenizer, SpecialToken};
pub use locate::{fetch_tokenizer, locate};
pub use tiktoken::TiktokenTokenizer;
