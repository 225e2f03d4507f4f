//! Talking to servers: pooled connections, limits, retries, several addresses, and errors that name no secret.
//!
//! [`Client::post`] sends one call and brings back what a parser makes of the answer. Everything between, from the
//! first attempt to the last, happens inside of it:
//!
//! 1. It waits until fewer calls are under way than may be (`num_concurrent`, else as many as the server bears).
//! 2. It chooses the address with the fewest calls among those that work.
//! 3. It waits for the limits of requests and tokens per minute.
//! 4. It sends, and sorts what comes back: an answer, an error for good, or a failure that is worth another attempt.
//!
//! A future that is dropped gives back everything that it holds.

mod balance;
mod client;
mod connect;
mod decode;
mod dial;
mod direct;
mod ending;
mod failure;
mod limiter;
mod rate;
mod redact;
mod retry;
mod settings;
mod trust;

pub use client::{BadAnswer, Call, Client};
pub use redact::public_url;
pub use settings::ClientSettings;
pub(crate) use trust::tls_with;
