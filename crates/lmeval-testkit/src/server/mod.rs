//! A stand-in for a model server: answers are derived from a hash of the prompt, so they are deterministic.
//!
//! It serves `/v1/completions` (strings and token ids, several prompts, `echo` with log-probabilities and offsets),
//! `/v1/chat/completions`, `/v1/models` and the tokenizer endpoints, counts requests, and injects faults on demand.

mod answers;
mod faults;
mod http;
mod scoring;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

pub use faults::{Fault, Faults};
pub use scoring::{ScoringBehavior, ScoringCounts, ScoringModel, TailRoute, TokenIds};

/// The reaction of a scripted server to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scripted {
    /// Answers with this content; each answer uses 10 tokens of the prompt and 5 of the completion.
    Text(String),
    /// Fails with this status.
    Status(u16),
    /// This status with this body.
    Body(u16, serde_json::Value),
    /// Answers as a server without a script.
    Unscripted,
}

/// Decides what a server does, given the body of a request and how often the same body arrived before.
pub type Script = fn(&serde_json::Value, usize) -> Scripted;

/// The behavior of the server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// The delay of every answer; see [`StandInServer::set_delay`].
    pub delay: Duration,
    /// The faults to inject.
    pub faults: Faults,
    /// Whether request bodies are recorded.
    pub keep_bodies: bool,
    /// Whether the tokenizer endpoints exist.
    pub tokenizer: bool,
    /// Whether log-probabilities of the prompt are omitted, like servers that ignore `echo`.
    pub ignores_echo: bool,
    /// Whether every completion gets the same answer without parsing the request: for benchmarks of clients, in which the
    /// server should cost nothing.
    pub canned: bool,
    /// Serves log-probabilities of this model instead of those derived from a hash of the prompt.
    pub scoring: Option<ScoringModel>,
    /// Answers chat requests instead of the hash of their prompts.
    pub chat: Option<Script>,
    /// Answers completion requests instead of the hash of their prompts.
    pub completions: Option<Script>,
    /// The number of threads; 0 means two.
    pub threads: usize,
    /// The port; 0 means any free one.
    pub port: u16,
}

/// Requests and answers so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// How often each request body arrived.
    pub received: HashMap<u64, usize>,
    /// How often each was answered completely.
    pub answered: HashMap<u64, usize>,
    /// Requests that got the canned answer.
    pub canned: usize,
    /// The recorded bodies with their paths.
    pub bodies: Vec<(String, String)>,
    /// When the first request arrived.
    pub first: Option<SystemTime>,
    /// When the last answer was sent.
    pub last: Option<SystemTime>,
}

impl Counts {
    /// The total number of requests.
    pub fn total(&self) -> usize {
        self.canned + self.received.values().sum::<usize>()
    }
}

/// State shared by connections.
struct ServerState {
    options: ServerOptions,
    counts: Mutex<Counts>,
    models_response: Mutex<Option<(u16, String)>>,
    delay: Mutex<Duration>,
    connections: AtomicUsize,
}

impl ServerState {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delay(&self) -> Duration {
        *self.delay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn models_response(&self) -> Option<(u16, String)> {
        self.models_response.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A server on the loopback interface; stops when dropped.
pub struct StandInServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    runtime: Option<Runtime>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl StandInServer {
    /// Changes the delay of every later answer. A test that waits for something to happen during a run starts with a long
    /// one, and removes it when it has happened.
    pub fn set_delay(&self, delay: Duration) {
        *self.shared.delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn start(options: ServerOptions) -> Self {
        let threads = if options.threads == 0 { 2 } else { options.threads };
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .expect("threads can be started");
        let listener = runtime.block_on(async {
            reserve(([127, 0, 0, 1], options.port).into()).await.listen(1024).expect("the port is ours")
        });
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(ServerState {
            delay: Mutex::new(options.delay),
            options,
            counts: Mutex::default(),
            models_response: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let accepting = runtime.spawn(http::accept(listener, Arc::clone(&shared)));
        Self { address, shared, runtime: Some(runtime), accepting: Mutex::new(Some(accepting)) }
    }

    /// The URL of an endpoint.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Requests and answers so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts().clone()
    }

    /// The number of requests so far.
    pub fn total(&self) -> usize {
        self.shared.counts().total()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Sets the response of `/v1/models` to a status and a body; `None` restores the real one.
    pub fn set_models(&self, answer: Option<(u16, &str)>) {
        let answer = answer.map(|(status, body)| (status, body.to_owned()));
        *self.shared.models_response.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// Resets the counts.
    pub fn reset(&self) {
        *self.shared.counts() = Counts::default();
    }

    /// Closes the socket and every connection for a while, like a server that restarts.
    ///
    /// # Panics
    ///
    /// If the port is taken in the meantime.
    pub fn die_for(&self, time: Duration) {
        self.die_while(|| std::thread::sleep(time));
    }

    /// [`die_for`](Self::die_for) as long as a function runs. Nobody else gets the port.
    ///
    /// # Panics
    ///
    /// If the port is taken before that.
    pub fn die_while(&self, work: impl FnOnce()) {
        let Some(runtime) = &self.runtime else { return };
        let mut accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = accepting.take() {
            running.abort();
        }
        let socket = runtime.block_on(reserve(self.address));
        work();
        // On the runtime, which the socket needs.
        let listener = runtime.block_on(async { socket.listen(1024) }).expect("the port is ours");
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

/// A socket with an address, at which connections are refused until it listens. Retries, because a port that was just used may take a
/// while.
async fn reserve(address: SocketAddr) -> TcpSocket {
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().expect("sockets are available");
        socket.set_reuseaddr(true).expect("ports can be used again");
        if socket.bind(address).is_ok() {
            return socket;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{address} is not free");
}

/// A hash that is the same on every machine (FNV-1a, mixed).
pub(crate) fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mix(hash)
}

/// Mixes the bits of a number.
pub(crate) fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
