//! Models served over HTTP.
//!
//! A [`Protocol`](protocol::Protocol) builds the bodies and parses the answers of one family of servers;
//! [`ApiModel`](model::ApiModel) does what they share: tokenization, truncation, windows and batches. Servers
//! that take one prompt string per call implement [`TextProtocol`](text::TextProtocol).

mod answer;
mod anthropic;
mod arguments;
mod chat;
mod completions;
mod contact;
mod deferred;
mod distributions;
mod examine;
mod fuzz;
mod generate;
mod gguf;
mod identity;
mod kind;
mod launched;
mod letters;
mod media;
mod model;
mod openai;
mod pool;
mod protocol;
mod score;
mod scoring;
mod sglang;
mod stream;
mod template;
mod text;
mod textsynth;
mod truncation;

pub(crate) use anthropic::{ANTHROPIC_CHAT, ANTHROPIC_COMPLETIONS};
pub(crate) use arguments::Backend;
pub(crate) use chat::LOCAL_CHAT_COMPLETIONS;
pub(crate) use completions::LOCAL_COMPLETIONS;
pub use fuzz::read_any;
pub(crate) use gguf::GGUF;
pub(crate) use launched::{SGLANG_SERVER, VLLM, VLLM_VLM};
pub(crate) use model::ApiModel;
pub(crate) use openai::{OPENAI_CHAT, OPENAI_COMPLETIONS, create_azure};
pub(crate) use sglang::SGLANG;
pub use template::server_template;
pub(crate) use textsynth::TEXTSYNTH;
