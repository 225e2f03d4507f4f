//! The tokenizer of a back end: which one it is, and how texts of prompts become tokens.

mod choose;
mod encoder;
mod remote;

use lmeval_core::{ModelError, ModelErrorKind};

pub(crate) use choose::choose;
pub(crate) use encoder::{Encoder, Tokenizer};
pub(crate) use remote::{server_query, server_root};

/// Runs a future to its end on a thread of its own: models are made within a runtime and without one.
fn wait<T: Send>(future: impl Future<Output = Result<T, ModelError>> + Send) -> Result<T, ModelError> {
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
