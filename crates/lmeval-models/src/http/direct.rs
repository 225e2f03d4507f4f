//! Our own connection pool: plain HTTP/1.1, one request at a time per connection.
//!
//! In HTTP/1.1 only the order on a connection ties an answer to its request. A server that sends one answer
//! too many shifts all later ones, and each request gets another request's answer. Any data already received
//! when a request is about to be written is therefore unsolicited, and the connection is closed. hyper checks
//! for this too, but through the event loop, which learns of bytes later than the kernel; we read from the
//! kernel.
//!
//! An unsolicited answer may also arrive after the next request was written and be taken for its answer.
//! Connections therefore rest between requests as long as spare ones are available: a surplus answer usually
//! follows closely, and is detected while nothing is expected. Once one has been seen, answers on reused
//! connections are discarded, and every later request gets a new connection.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HOST, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use reqwest::{Request, StatusCode, Url};
use socket2::SockRef;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connect::REDIRECTS;
use super::decode::decoded;
use super::dial::dial;
use super::failure::root_cause;

/// How long a connection rests before reuse, unless too many connections would be open.
const REST: Duration = Duration::from_millis(50);
/// With this many connections open, none is opened just to let another rest.
const MAX_SPARE: usize = 256;
/// Bytes per read.
const CHUNK: usize = 16 << 10;

/// Host and port.
type HostPort = (String, u16);

/// A connection pool over any number of hosts.
pub(super) struct Direct {
    user_agent: HeaderValue,
    connect_limit: Duration,
    idle_limit: Duration,
    /// The number of idle connections kept per host.
    most: usize,
    hosts: Mutex<HashMap<HostPort, Arc<HostPool>>>,
    /// Whether a server with unsolicited answers has not been reported yet.
    has_unreported_strays: Arc<AtomicBool>,
}

/// The pooled connections and the history of one host.
#[derive(Default)]
struct HostPool {
    /// Oldest first.
    idle: Mutex<VecDeque<PooledConnection>>,
    /// The number of open connections, idle or not.
    open: AtomicUsize,
    /// Whether the server has sent an unsolicited answer.
    sent_strays: AtomicBool,
    /// Whether that has been reported.
    strays_reported: AtomicBool,
}

/// A connection with no request in flight.
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    /// Drives the connection; finishes when it closes.
    driver: JoinHandle<()>,
    is_reused: bool,
    idle_since: Instant,
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
    pub(super) fn new(
        user_agent: &'static str,
        connect_limit: Duration,
        idle_limit: Duration,
        most: usize,
    ) -> Self {
        let user_agent = HeaderValue::from_static(user_agent);
        Self {
            user_agent,
            connect_limit,
            idle_limit,
            most,
            hosts: Mutex::default(),
            has_unreported_strays: Arc::default(),
        }
    }

    /// Sends a request and reads the complete answer, following redirects within the same server.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        body: &Bytes,
        largest: usize,
    ) -> Result<Reply, ExchangeError> {
        let mut url = Cow::Borrowed(request.url());
        for _ in 0..REDIRECTS {
            let reply = self.send_once(request, &url, body, largest).await?;
            match redirect_target(&reply, &url) {
                Some(next) => url = Cow::Owned(next),
                None => return Ok(reply),
            }
        }
        self.send_once(request, &url, body, largest).await
    }

    async fn send_once(
        &self,
        request: &Request,
        url: &Url,
        body: &Bytes,
        largest: usize,
    ) -> Result<Reply, ExchangeError> {
        let host_port =
            (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default().unwrap_or(80));
        let pool = Arc::clone(lock(&self.hosts).entry(host_port.clone()).or_default());
        let outgoing = self.outgoing(request, url, body)?;
        loop {
            let mut pooled = match self.take_idle(&pool) {
                Some(pooled) => pooled,
                None => self.connect(&host_port, &pool).await?,
            };
            match pooled.sender.send_request(outgoing.clone()).await {
                Ok(response) => return self.read(pooled, &pool, response, largest).await,
                // Nothing was written: the connection was closed, or had unsolicited data.
                Err(error) if pooled.is_reused && error.is_canceled() => {}
                Err(error) => return Err(ExchangeError::Closed(root_cause(&error))),
            }
        }
    }

    /// Builds the request to write.
    fn outgoing(
        &self,
        request: &Request,
        url: &Url,
        body: &Bytes,
    ) -> Result<hyper::Request<Full<Bytes>>, ExchangeError> {
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{}{query}", url.path());
        let mut outgoing = hyper::Request::new(Full::new(body.clone()));
        *outgoing.method_mut() = request.method().clone();
        let unusable = |cause: String| ExchangeError::NoConnection { cause, is_dns: false };
        *outgoing.uri_mut() = target.parse().map_err(|error| unusable(format!("{error}")))?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let host = format!("{}{port}", url.host_str().unwrap_or_default());
        let host = HeaderValue::from_str(&host).map_err(|error| unusable(error.to_string()))?;
        let headers = outgoing.headers_mut();
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(HOST, host);
        for (name, value) in request.headers() {
            headers.insert(name, value.clone());
        }
        Ok(outgoing)
    }

    /// Servers that have sent unsolicited answers, each reported once.
    pub(super) fn take_stray_servers(&self) -> Vec<String> {
        if !self.has_unreported_strays.load(Ordering::Acquire)
            || !self.has_unreported_strays.swap(false, Ordering::AcqRel)
        {
            return Vec::new();
        }
        let is_unreported = |pool: &HostPool| {
            pool.sent_strays.load(Ordering::Acquire) && !pool.strays_reported.swap(true, Ordering::AcqRel)
        };
        let hosts = lock(&self.hosts);
        let unreported = hosts.iter().filter(|(_, pool)| is_unreported(pool));
        unreported.map(|((host, port), _)| format!("http://{host}:{port}")).collect()
    }

    /// Takes an idle connection that has rested long enough.
    fn take_idle(&self, pool: &HostPool) -> Option<PooledConnection> {
        let mut idle = lock(&pool.idle);
        if pool.sent_strays.load(Ordering::Acquire) {
            idle.clear();
        }
        while let Some(mut pooled) = idle.pop_front() {
            let rested = pooled.idle_since.elapsed();
            if rested >= self.idle_limit || pooled.sender.is_closed() {
                continue;
            }
            let open = pool.open.load(Ordering::Relaxed);
            let in_use = open.saturating_sub(idle.len());
            if rested < REST && open < MAX_SPARE.min(2 * in_use + 2) {
                idle.push_front(pooled);
                return None;
            }
            pooled.is_reused = true;
            return Some(pooled);
        }
        None
    }

    async fn connect(
        &self,
        host_port: &HostPort,
        pool: &Arc<HostPool>,
    ) -> Result<PooledConnection, ExchangeError> {
        let failed =
            |is_dns| move |error: io::Error| ExchangeError::NoConnection { cause: error.to_string(), is_dns };
        // IPv6 literals come in brackets.
        let host = host_port.0.trim_matches(['[', ']']);
        let connecting = async {
            let addresses: Vec<_> = lookup_host((host, host_port.1)).await.map_err(failed(true))?.collect();
            dial(addresses).await.map_err(failed(false))
        };
        let stream = tokio::time::timeout(self.connect_limit, connecting).await.unwrap_or_else(|_| {
            let cause = format!("not established within {} s", self.connect_limit.as_secs_f64());
            Err(ExchangeError::NoConnection { cause, is_dns: false })
        })?;
        let wire = KernelFirstStream(TokioIo::new(stream));
        let (sender, connection) =
            handshake(wire).await.map_err(|error| ExchangeError::Closed(root_cause(&error)))?;
        let (pool, has_unreported_strays) = (Arc::clone(pool), Arc::clone(&self.has_unreported_strays));
        pool.open.fetch_add(1, Ordering::Relaxed);
        let driver = tokio::spawn(async move {
            if connection.await.is_err_and(|error| is_unexpected(&error))
                && !pool.sent_strays.swap(true, Ordering::AcqRel)
            {
                has_unreported_strays.store(true, Ordering::Release);
            }
            pool.open.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(PooledConnection { sender, driver, is_reused: false, idle_since: Instant::now() })
    }

    /// Reads an answer to its end and returns the connection to the pool.
    async fn read(
        &self,
        mut pooled: PooledConnection,
        pool: &HostPool,
        response: hyper::Response<Incoming>,
        largest: usize,
    ) -> Result<Reply, ExchangeError> {
        let (head, incoming) = response.into_parts();
        let body = read_body(incoming, largest).await;
        // Ready again means that nothing followed the answer. If the connection was closed, its driver knows
        // why and cannot fail itself.
        if body.is_ok() && pooled.sender.ready().await.is_err() {
            let _ = (&mut pooled.driver).await;
        }
        // The first answer on a connection belongs to its only request, whatever follows.
        if pooled.is_reused && pool.sent_strays.load(Ordering::Acquire) {
            return Err(ExchangeError::Stray);
        }
        if body.is_ok() && !pooled.sender.is_closed() && !pool.sent_strays.load(Ordering::Acquire) {
            pooled.idle_since = Instant::now();
            let mut idle = lock(&pool.idle);
            if idle.len() < self.most.max(MAX_SPARE) {
                idle.push_back(pooled);
            }
        }
        let body = body.and_then(|body| decoded(&head.headers, body, largest));
        Ok(Reply { status: head.status, headers: head.headers, body })
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

async fn read_body(mut incoming: Incoming, largest: usize) -> Result<Bytes, ExchangeError> {
    let mut first: Option<Bytes> = None;
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| ExchangeError::Truncated(root_cause(&error)))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if body.len() + chunk.len() > largest {
            return Err(ExchangeError::TooLarge);
        }
        // Avoids a copy when the body arrives in one chunk.
        if first.is_none() && body.is_empty() {
            first = Some(chunk);
            continue;
        }
        if let Some(first) = first.take() {
            body.extend_from_slice(&first);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(first.unwrap_or_else(|| body.freeze()))
}

/// Whether a connection ended because data arrived while no answer was expected. hyper has no predicate for
/// this error: it matches none of the others and has no source.
fn is_unexpected(error: &hyper::Error) -> bool {
    let is_other = error.is_parse()
        || error.is_user()
        || error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || error.is_timeout();
    !is_other && std::error::Error::source(error).is_none()
}

/// A stream that reads from the kernel before consulting the event loop.
struct KernelFirstStream(TokioIo<TcpStream>);

impl Read for KernelFirstStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK];
        let room = CHUNK.min(buffer.remaining());
        let read = (&*SockRef::from(self.0.inner())).read(&mut chunk[..room]);
        match read {
            Ok(count) => {
                buffer.put_slice(&chunk[..count]);
                Poll::Ready(Ok(()))
            }
            // Nothing yet: register with the event loop.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Pin::new(&mut self.0).poll_read(context, buffer)
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Write for KernelFirstStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
