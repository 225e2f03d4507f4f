//! Tokenizers from local folders, the hub, GGUF files and OpenAI.

mod chat;
mod class;
mod formats;
mod gguf;
mod huggingface;
mod locate;
mod merges;
mod parts;
mod pipeline;
mod sentencepiece;
mod special;
mod tekken;
mod tiktoken;
mod whole;

pub use chat::TokenizerTemplate;
pub use gguf::{GgufTokenKind, GgufVocabulary};
pub use huggingface::{HuggingFaceTokenizer, SpecialToken};
pub use locate::{fetch_tokenizer, locate};
pub use tiktoken::TiktokenTokenizer;
