//! The tokenizer of a server backend.

mod choose;
mod encoder;
mod remote;

use lmeval_core::{ModelError, ModelErrorKind};

pub(crate) use choose::{choose, is_of_server};
pub(crate) use encoder::{Encoder, Tokenizer};
pub(crate) use remote::{server_query, server_root};

/// Runs a future to completion on a separate thread, since models are created inside and outside of a
/// runtime.
fn wait<T: Send>(future: impl Future<Output = Result<T, ModelError>> + Send) -> Result<T, ModelError> {
    let failed = |problem: &str| {
        ModelError::new(ModelErrorKind::Configuration, format!("The model could not be created: {problem}"))
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| failed(&error.to_string()))?.block_on(future)
        });
        waiting.join().unwrap_or_else(|_| Err(failed("the tokenizer thread panicked")))
    })
}
