//! Workers on other machines that join a run over the network.
//!
//! A run listens ([`WorkerPool`]), workers connect ([`work_for_run`]). Both sides prove that they know a common token, if wanted over TLS. A worker
//! creates the model from the settings of the run and answers batches of requests; the run keeps the queue, so a
//! worker that leaves costs nothing but the requests it had not answered.

mod channel;
mod link;
mod model;
mod pool;
mod stream;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod tls;
mod wire;
mod work;

pub use self::channel::Token;
pub use self::model::WorkerPool;
pub use self::pool::{PoolOptions, WorkerNotes};
pub use self::tls::{RunTls, WorkerTls};
pub use self::work::{CreateModel, WorkerOptions, work_for_run};
