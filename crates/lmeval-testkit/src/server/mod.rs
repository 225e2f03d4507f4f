//! A stand-in for a model server: answers are made from a hash of the prompt, so they are the same in every run.
//!
//! It speaks `/v1/completions` (texts and token ids, several prompts, `echo` with log-probabilities and offsets),
//! `/v1/chat/completions`, `/v1/models` and the tokenizer end points, counts what it is asked, and misbehaves on demand.

mod answers;
mod faults;
mod http;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

pub use faults::{Fault, Faults};

/// How the server behaves.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// How long every answer takes.
    pub delay: Duration,
    /// What goes wrong.
    pub faults: Faults,
    /// Whether the bodies of requests are kept.
    pub keep_bodies: bool,
    /// Whether there are tokenizer end points.
    pub tokenizer: bool,
    /// Whether log-probabilities of the prompt are left out, as servers do that ignore `echo`.
    pub ignores_echo: bool,
    /// Whether every answer to a completion is the same text, made without a look at the request: for benchmarks of
    /// clients, in which the server should cost nothing.
    pub canned: bool,
    /// How many threads answer; 0 for two.
    pub threads: usize,
    /// The port; 0 for any that is free.
    pub port: u16,
}

/// What was asked, and what was answered.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// How often each body of a request came.
    pub received: HashMap<u64, usize>,
    /// How often each was answered in full.
    pub answered: HashMap<u64, usize>,
    /// Requests that got the same answer without a look at them.
    pub canned: usize,
    /// The bodies by path, where they are kept.
    pub bodies: Vec<(String, String)>,
    /// When the first request came.
    pub first: Option<SystemTime>,
    /// When the last answer went.
    pub last: Option<SystemTime>,
}

impl Counts {
    /// Requests of any kind.
    pub fn total(&self) -> usize {
        self.canned + self.received.values().sum::<usize>()
    }
}

/// What connections share.
struct Shared {
    options: ServerOptions,
    counts: Mutex<Counts>,
    odd_models: Mutex<Option<(u16, String)>>,
}

impl Shared {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn odd_models(&self) -> Option<(u16, String)> {
        self.odd_models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A server on the loopback interface; it ends when it is dropped.
pub struct StandInServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl StandInServer {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn start(options: ServerOptions) -> Self {
        let threads = if options.threads == 0 { 2 } else { options.threads };
        let runtime =
            Builder::new_multi_thread().worker_threads(threads).enable_all().build().expect("threads");
        let listener = runtime.block_on(bind(options.port));
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared { options, counts: Mutex::default(), odd_models: Mutex::default() });
        let accepting = runtime.spawn(http::accept(listener, Arc::clone(&shared)));
        Self { address, shared, runtime: Some(runtime), accepting: Mutex::new(Some(accepting)) }
    }

    /// The address of an end point.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked and answered so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts().clone()
    }

    /// How many requests came so far.
    pub fn total(&self) -> usize {
        self.shared.counts().total()
    }

    /// Answers the question which models there are with a status and a body; `None` for the truth.
    pub fn set_models(&self, answer: Option<(u16, &str)>) {
        let answer = answer.map(|(status, body)| (status, body.to_owned()));
        *self.shared.odd_models.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// Forgets what was asked and answered.
    pub fn reset(&self) {
        *self.shared.counts() = Counts::default();
    }

    /// Closes the socket and every connection for a while, as a server does that is started anew.
    ///
    /// # Panics
    ///
    /// If the port is taken in the meantime.
    pub fn die_for(&self, time: Duration) {
        let Some(runtime) = &self.runtime else { return };
        let mut accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = accepting.take() {
            running.abort();
        }
        std::thread::sleep(time);
        let listener = runtime.block_on(bind(self.address.port()));
        *accepting = Some(runtime.spawn(http::accept(listener, Arc::clone(&self.shared))));
    }
}

impl Drop for StandInServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Listens on a port; one that was used a moment ago may take a while.
async fn bind(port: u16) -> TcpListener {
    for _ in 0..100 {
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("port {port} is not free");
}

/// A hash that is the same on every machine (FNV-1a, mixed).
pub(crate) fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mix(hash)
}

/// Spreads a number over all its bits.
pub(crate) fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
