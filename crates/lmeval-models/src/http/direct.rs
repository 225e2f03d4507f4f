//! Our own connection pool: plain HTTP/1.1, one request at a time per connection.
//!
//! In HTTP/1.1 only the order on a connection ties an answer to its request. A server that sends one answer
//! too many shifts all later ones, and each request gets another request's answer. Any data already received
//! when a request is about to be written is therefore unsolicited, and the connection is closed. The check asks the
//! kernel, because the event loop learns of bytes later.
//!
//! An unsolicited answer may also arrive after the next request was written and be taken for its answer.
//! Connections therefore rest between requests as long as spare ones are available: a surplus answer usually
//! follows closely, and is detected while nothing is expected. Once one has been seen, answers on reused
//! connections are discarded, and every later request gets a new connection.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, LOCATION, TRANSFER_ENCODING,
    USER_AGENT,
};
use reqwest::{Method, StatusCode, Url};
use tokio::net::lookup_host;
use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::connect::REDIRECTS;
use super::decode::decoded;
use super::dial::{Stream, dial};
use super::socket::{dial_socket, socket_of};
use super::stream::Tap;
use super::wire::{self, Answer};

/// How long a connection rests before reuse, unless too many connections would be open.
const REST: Duration = Duration::from_millis(50);
/// With this many connections open, none is opened just to let another rest.
const MAX_SPARE: usize = 256;

/// The connection pools of any number of hosts.
pub(super) struct Direct {
    limits: Limits,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

/// Settings that all hosts have in common.
#[derive(Clone, Copy)]
struct Limits {
    user_agent: &'static str,
    connect: Duration,
    idle: Duration,
    /// The number of idle connections kept per host.
    most: usize,
}

/// A host and port with its connections and its history.
pub(super) struct Host {
    limits: Limits,
    /// As in the `Host` header: the port only where it is not the default.
    authority: String,
    /// Without the brackets of an IPv6 literal.
    name: String,
    port: u16,
    /// Connections with no request in flight, oldest first.
    idle: Mutex<VecDeque<Connection>>,
    /// The number of open connections, idle or not.
    open: Arc<AtomicUsize>,
    /// Whether the server has sent an unsolicited answer.
    sent_strays: AtomicBool,
    /// Whether that has been reported.
    strays_reported: AtomicBool,
}

struct Connection {
    stream: Box<dyn Stream>,
    /// Counts this connection until it is dropped.
    open: Arc<AtomicUsize>,
    is_reused: bool,
    idle_since: Instant,
    /// The runtime that opened it, with which it dies.
    runtime: Id,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Data that the kernel has received on a connection while nothing was expected.
enum Unexpected {
    Nothing,
    Stray,
    Closed,
}

impl Connection {
    /// Asks the kernel.
    fn unexpected(&self) -> Unexpected {
        let mut byte = [MaybeUninit::uninit()];
        match self.stream.socket().peek(&mut byte) {
            Ok(0) => Unexpected::Closed,
            Ok(_) => Unexpected::Stray,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Unexpected::Nothing
            }
            Err(_) => Unexpected::Closed,
        }
    }

    /// The same, without a system call if the event loop has seen nothing.
    fn noticed(&self) -> Unexpected {
        let mut found = Unexpected::Nothing;
        // An error is the answer that nothing is ready; it also resets what the event loop has seen.
        let _ = self.stream.try_read_with(&mut || {
            found = self.unexpected();
            match found {
                Unexpected::Nothing => Err(io::Error::from(io::ErrorKind::WouldBlock)),
                Unexpected::Stray | Unexpected::Closed => Ok(()),
            }
        });
        found
    }
}

/// A request to send.
pub(super) struct Outgoing<'a> {
    pub(super) method: &'a Method,
    pub(super) url: &'a Url,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Bytes,
    /// Gets the body of the answer as it arrives.
    pub(super) tap: Tap<'a>,
}

/// A complete answer. Its body may have failed.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Result<Bytes, ExchangeError>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum ExchangeError {
    NoConnection {
        cause: String,
        is_dns: bool,
    },
    TimedOut,
    Closed(String),
    Truncated(String),
    /// The answer may belong to another request.
    Stray,
    TooLarge,
    /// The body has a content encoding that was not requested and cannot be decoded.
    Encoded(String),
}

impl Direct {
    pub(super) fn new(user_agent: &'static str, connect: Duration, idle: Duration, most: usize) -> Self {
        Self { limits: Limits { user_agent, connect, idle, most }, hosts: Mutex::default() }
    }

    /// Drops the pool of the URL's host, so that its connections are closed when they are no longer in use.
    pub(super) fn forget(&self, url: &Url) {
        lock(&self.hosts).remove(&authority(url));
    }

    /// The pool of the URL's host.
    pub(super) fn host(&self, url: &Url) -> Arc<Host> {
        let host = url.host_str().unwrap_or_default();
        let pool = |authority: &String| {
            Arc::new(Host {
                limits: self.limits,
                authority: authority.clone(),
                name: host.trim_matches(['[', ']']).to_owned(),
                port: url.port_or_known_default().unwrap_or(80),
                idle: Mutex::default(),
                open: Arc::default(),
                sent_strays: AtomicBool::new(false),
                strays_reported: AtomicBool::new(false),
            })
        };
        Arc::clone(lock(&self.hosts).entry(authority(url)).or_insert_with_key(pool))
    }
}

impl Host {
    /// Sends a request and reads the complete answer, following redirects within the same server.
    pub(super) async fn exchange(
        &self,
        request: &Outgoing<'_>,
        largest: usize,
    ) -> Result<Reply, ExchangeError> {
        let mut url = Cow::Borrowed(request.url);
        for _ in 0..REDIRECTS {
            let reply = self.send_once(request, &url, largest).await?;
            match redirect_target(&reply, &url) {
                Some(next) => url = Cow::Owned(next),
                None => return Ok(reply),
            }
        }
        self.send_once(request, &url, largest).await
    }

    /// The server's address if it has sent unsolicited answers and this is the first call since.
    pub(super) fn take_stray_report(&self) -> Option<String> {
        let is_news = self.sent_strays.load(Ordering::Acquire)
            && !self.strays_reported.load(Ordering::Acquire)
            && !self.strays_reported.swap(true, Ordering::AcqRel);
        is_news.then(|| format!("http://{}", self.authority))
    }

    async fn send_once(
        &self,
        request: &Outgoing<'_>,
        url: &Url,
        largest: usize,
    ) -> Result<Reply, ExchangeError> {
        let head = self.head(request, url);
        let mut connection = loop {
            let Some(connection) = self.take_idle() else { break self.connect().await? };
            match connection.unexpected() {
                Unexpected::Nothing => break connection,
                Unexpected::Stray => self.sent_strays.store(true, Ordering::Release),
                Unexpected::Closed => {}
            }
        };
        let answer =
            wire::exchange(&mut connection.stream, &head, request.body, largest, request.tap).await?;
        let Answer { status, headers, body, keeps_alive, has_surplus } = answer;
        if has_surplus {
            self.sent_strays.store(true, Ordering::Release);
        }
        // The first answer on a connection belongs to its only request, whatever follows.
        if connection.is_reused && self.has_strays() {
            return Err(ExchangeError::Stray);
        }
        if keeps_alive && !self.sent_strays.load(Ordering::Acquire) {
            connection.idle_since = Instant::now();
            let mut idle = lock(&self.idle);
            if idle.len() < self.limits.most.max(MAX_SPARE) {
                idle.push_back(connection);
            }
        }
        let body = body.and_then(|body| decoded(&headers, body, largest));
        Ok(Reply { status, headers, body })
    }

    /// Status line and headers of a request.
    fn head(&self, request: &Outgoing<'_>, url: &Url) -> Vec<u8> {
        let mut head = Vec::with_capacity(512);
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| head.extend_from_slice(part));
        put(&[request.method.as_str().as_bytes(), b" ", url.path().as_bytes()]);
        if let Some(query) = url.query() {
            put(&[b"?", query.as_bytes()]);
        }
        put(&[b" HTTP/1.1\r\n"]);
        let defaults = [
            (HOST, self.authority.as_str()),
            (USER_AGENT, self.limits.user_agent),
            (ACCEPT, "*/*"),
            (ACCEPT_ENCODING, "identity"),
        ];
        for (name, value) in &defaults {
            if !request.headers.contains_key(name) {
                put(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
            }
        }
        // The length is ours to know.
        let is_framing = |name: &HeaderName| name == CONTENT_LENGTH || name == TRANSFER_ENCODING;
        for (name, value) in request.headers.iter().filter(|(name, _)| !is_framing(name)) {
            put(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
        if !request.body.is_empty() || request.method == Method::POST {
            put(&[b"content-length: ", request.body.len().to_string().as_bytes(), b"\r\n"]);
        }
        put(&[b"\r\n"]);
        head
    }

    /// Whether the server is known to have sent an unsolicited answer, on any connection.
    fn has_strays(&self) -> bool {
        if !self.sent_strays.load(Ordering::Acquire) {
            let is_stray = |connection: &Connection| matches!(connection.noticed(), Unexpected::Stray);
            if lock(&self.idle).iter().any(is_stray) {
                self.sent_strays.store(true, Ordering::Release);
            }
        }
        self.sent_strays.load(Ordering::Acquire)
    }

    /// Takes an idle connection that has rested long enough.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        if self.sent_strays.load(Ordering::Acquire) {
            idle.clear();
        }
        // Those of an earlier run in the same process come first.
        let here = Handle::current().id();
        while idle.front().is_some_and(|connection| connection.runtime != here) {
            idle.pop_front();
        }
        while let Some(mut connection) = idle.pop_front() {
            let rested = connection.idle_since.elapsed();
            if rested >= self.limits.idle {
                continue;
            }
            let open = self.open.load(Ordering::Relaxed);
            let in_use = open.saturating_sub(idle.len());
            if rested < REST && open < MAX_SPARE.min(2 * in_use + 2) {
                idle.push_front(connection);
                return None;
            }
            connection.is_reused = true;
            return Some(connection);
        }
        None
    }

    async fn connect(&self) -> Result<Connection, ExchangeError> {
        let failed =
            |is_dns| move |error: io::Error| ExchangeError::NoConnection { cause: error.to_string(), is_dns };
        let connecting = async {
            if let Some(socket) = socket_of(&self.name) {
                return dial_socket(&socket).await.map_err(failed(false));
            }
            let addresses = lookup_host((self.name.as_str(), self.port)).await.map_err(failed(true))?;
            dial(addresses.collect()).await.map_err(failed(false))
        };
        let stream = tokio::time::timeout(self.limits.connect, connecting).await.unwrap_or_else(|_| {
            let cause = format!("not established within {} s", self.limits.connect.as_secs_f64());
            Err(ExchangeError::NoConnection { cause, is_dns: false })
        })?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Connection {
            stream,
            open: Arc::clone(&self.open),
            is_reused: false,
            idle_since: Instant::now(),
            runtime: Handle::current().id(),
        })
    }
}

/// Host and port of a URL, as in the `Host` header.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The redirect target within the same server, if the method is preserved.
fn redirect_target(reply: &Reply, url: &Url) -> Option<Url> {
    if !matches!(reply.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let location = reply.headers.get(LOCATION)?.to_str().ok()?;
    url.join(location).ok().filter(|next| next.origin() == url.origin())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
