//! Model backends: HTTP servers, replay, n-gram and dummy models.

mod api;
pub mod http;
mod launched;
mod local;
mod pair;
mod registry;
mod tokenizer;

#[doc(hidden)]
pub use api::read_any as fuzz_answer;
pub use api::server_template;
pub use launched::serve_command;
pub use lmeval_core::ModelSettings;
pub use registry::{create, models};
