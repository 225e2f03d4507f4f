//! HTTP client: pooled connections, rate limits, retries, several base URLs, and errors without secrets.
//!
//! [`Client::post`] sends one call, with retries, and returns the parsed answer. For each attempt it
//! 1. waits for a free slot (`num_concurrent`, or the adaptive limit),
//! 2. chooses a healthy server, by its calls in flight and in a pool by its speed,
//! 3. waits for the requests-per-minute and tokens-per-minute limits,
//! 4. sends the request and classifies the outcome: an answer, a final error, or a failure worth a retry.
//!
//! Dropping the future releases everything it holds.

mod balance;
mod client;
mod connect;
mod decode;
mod dial;
mod direct;
mod failure;
mod limiter;
mod member;
mod members;
mod pool;
mod rate;
mod redact;
mod retry;
mod settings;
mod shutdown;
mod silence;
mod socket;
mod start;
mod stream;
mod trace;
mod trust;
mod wire;

pub use client::{BadAnswer, Call, Client};
pub(crate) use client::{Route, server_path};
pub(crate) use member::{MemberView, Standing, Tally};
pub use pool::{PoolSource, Resolver};
pub use redact::public_url;
pub use settings::ClientSettings;
pub(crate) use silence::models_url;
pub(crate) use socket::socket_host;
pub(crate) use stream::Receiver;
pub(crate) use trust::tls_with;
