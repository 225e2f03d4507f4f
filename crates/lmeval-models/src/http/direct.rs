//! Connections of our own: plain HTTP/1.1, one request at a time, kept and used again.
//!
//! HTTP/1.1 has nothing that ties an answer to its request but their order on a connection. A server that sends one answer
//! too many shifts every later one, and each request gets the answer of another. Whatever has come when a request is about
//! to be written was not asked for, and the connection is closed. The library below looks for that, but asks the event
//! loop, which learns of bytes later than the kernel has them; here, the kernel is asked.
//!
//! An answer that nobody asked for may also come after the next request was written, and is then taken for the answer to
//! it. Connections therefore rest between requests as long as a few spare ones allow: what a server sends too much usually
//! follows closely, and a shifted answer shows as soon as nothing is awaited. Once one has been seen, an answer on a
//! connection that was used before is not believed, and from then on every request gets a connection of its own.

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

/// How long a connection rests before it is used again, unless there would be too many.
const REST: Duration = Duration::from_millis(50);
/// Beyond this number, no connection is made only so that another one can rest.
const MOST_SPARE: usize = 256;
/// How much is read at once.
const CHUNK: usize = 16 << 10;

/// Host and port.
type Place = (String, u16);

/// Connections to any number of places.
pub(super) struct Direct {
    user_agent: HeaderValue,
    connect_limit: Duration,
    idle_limit: Duration,
    /// How many idle connections to a place are kept.
    most: usize,
    places: Mutex<HashMap<Place, Arc<Known>>>,
    /// Whether a server that has sent an answer that nobody asked for is yet to be told of.
    has_news: Arc<AtomicBool>,
}

/// What is known of a place.
#[derive(Default)]
struct Known {
    /// The one that has rested longest comes first.
    idle: Mutex<VecDeque<Line>>,
    /// How many connections there are.
    open: AtomicUsize,
    /// Whether it has sent an answer that nobody asked for.
    strays: AtomicBool,
    /// Whether that has been told.
    is_told: AtomicBool,
}

/// A connection that no request is under way on.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// Drives the connection; done when it is closed.
    driver: JoinHandle<()>,
    is_reused: bool,
    idle_since: Instant,
}

/// An answer.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Result<Bytes, Trouble>,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Trouble {
    NoConnection {
        cause: String,
        is_dns: bool,
    },
    TimedOut,
    Closed(String),
    HalfAnswer(String),
    /// It may be the answer to another request.
    Stray,
    TooLarge,
    /// The body is compressed in a way that was not asked for and cannot be undone.
    Encoded(String),
}

impl Direct {
    /// No connections yet.
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
            places: Mutex::default(),
            has_news: Arc::default(),
        }
    }

    /// Sends a request and reads the whole answer, from another path of the same server where it leads there.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        body: &Bytes,
        largest: usize,
    ) -> Result<Reply, Trouble> {
        let mut url = Cow::Borrowed(request.url());
        for _ in 0..REDIRECTS {
            let reply = self.ask(request, &url, body, largest).await?;
            match led_to(&reply, &url) {
                Some(next) => url = Cow::Owned(next),
                None => return Ok(reply),
            }
        }
        self.ask(request, &url, body, largest).await
    }

    async fn ask(
        &self,
        request: &Request,
        url: &Url,
        body: &Bytes,
        largest: usize,
    ) -> Result<Reply, Trouble> {
        let place =
            (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default().unwrap_or(80));
        let known = Arc::clone(hold(&self.places).entry(place.clone()).or_default());
        let outgoing = self.outgoing(request, url, body)?;
        loop {
            let mut line = match self.kept(&known) {
                Some(line) => line,
                None => self.connect(&place, &known).await?,
            };
            match line.sender.send_request(outgoing.clone()).await {
                Ok(response) => return self.read(line, &known, response, largest).await,
                // Nothing was written: the connection was found closed, or with bytes that nobody asked for.
                Err(error) if line.is_reused && error.is_canceled() => {}
                Err(error) => return Err(Trouble::Closed(root_cause(&error))),
            }
        }
    }

    /// A request as it is written.
    fn outgoing(
        &self,
        request: &Request,
        url: &Url,
        body: &Bytes,
    ) -> Result<hyper::Request<Full<Bytes>>, Trouble> {
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{}{query}", url.path());
        let mut outgoing = hyper::Request::new(Full::new(body.clone()));
        *outgoing.method_mut() = request.method().clone();
        let unusable = |cause: String| Trouble::NoConnection { cause, is_dns: false };
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

    /// The addresses of servers that have sent an answer that nobody asked for, each once.
    pub(super) fn news_of_strays(&self) -> Vec<String> {
        if !self.has_news.load(Ordering::Acquire) || !self.has_news.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let is_news = |known: &Known| {
            known.strays.load(Ordering::Acquire) && !known.is_told.swap(true, Ordering::AcqRel)
        };
        let places = hold(&self.places);
        let news = places.iter().filter(|(_, known)| is_news(known));
        news.map(|((host, port), _)| format!("http://{host}:{port}")).collect()
    }

    /// A connection that was used before.
    fn kept(&self, known: &Known) -> Option<Line> {
        let mut idle = hold(&known.idle);
        if known.strays.load(Ordering::Acquire) {
            idle.clear();
        }
        while let Some(mut line) = idle.pop_front() {
            let rested = line.idle_since.elapsed();
            if rested >= self.idle_limit || line.sender.is_closed() {
                continue;
            }
            let open = known.open.load(Ordering::Relaxed);
            let in_use = open.saturating_sub(idle.len());
            if rested < REST && open < MOST_SPARE.min(2 * in_use + 2) {
                idle.push_front(line);
                return None;
            }
            line.is_reused = true;
            return Some(line);
        }
        None
    }

    async fn connect(&self, place: &Place, known: &Arc<Known>) -> Result<Line, Trouble> {
        let failed =
            |is_dns| move |error: io::Error| Trouble::NoConnection { cause: error.to_string(), is_dns };
        // A literal address of the sixth version stands in brackets.
        let host = place.0.trim_matches(['[', ']']);
        let connecting = async {
            let addresses: Vec<_> = lookup_host((host, place.1)).await.map_err(failed(true))?.collect();
            dial(addresses).await.map_err(failed(false))
        };
        let stream = tokio::time::timeout(self.connect_limit, connecting).await.unwrap_or_else(|_| {
            let cause = format!("none within {} s", self.connect_limit.as_secs_f64());
            Err(Trouble::NoConnection { cause, is_dns: false })
        })?;
        let wire = Wire(TokioIo::new(stream));
        let (sender, connection) =
            handshake(wire).await.map_err(|error| Trouble::Closed(root_cause(&error)))?;
        let (known, has_news) = (Arc::clone(known), Arc::clone(&self.has_news));
        known.open.fetch_add(1, Ordering::Relaxed);
        let driver = tokio::spawn(async move {
            if connection.await.is_err_and(|error| is_unexpected(&error))
                && !known.strays.swap(true, Ordering::AcqRel)
            {
                has_news.store(true, Ordering::Release);
            }
            known.open.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(Line { sender, driver, is_reused: false, idle_since: Instant::now() })
    }

    /// Reads an answer to its end, and keeps the connection for the next request.
    async fn read(
        &self,
        mut line: Line,
        known: &Known,
        response: hyper::Response<Incoming>,
        largest: usize,
    ) -> Result<Reply, Trouble> {
        let (head, incoming) = response.into_parts();
        let body = read_body(incoming, largest).await;
        // Ready again means that nothing came behind the answer. Where the connection is closed, its driver knows why, and
        // has no failure of its own.
        if body.is_ok() && line.sender.ready().await.is_err() {
            let _ = (&mut line.driver).await;
        }
        // The first answer on a connection is the one to its only request, whatever follows.
        if line.is_reused && known.strays.load(Ordering::Acquire) {
            return Err(Trouble::Stray);
        }
        if body.is_ok() && !line.sender.is_closed() && !known.strays.load(Ordering::Acquire) {
            line.idle_since = Instant::now();
            let mut idle = hold(&known.idle);
            if idle.len() < self.most.max(MOST_SPARE) {
                idle.push_back(line);
            }
        }
        let body = body.and_then(|body| decoded(&head.headers, body, largest));
        Ok(Reply { status: head.status, headers: head.headers, body })
    }
}

/// Another path of the same server that an answer leads to with the same request.
fn led_to(reply: &Reply, url: &Url) -> Option<Url> {
    if !matches!(reply.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let location = reply.headers.get(LOCATION)?.to_str().ok()?;
    url.join(location).ok().filter(|next| next.origin() == url.origin())
}

async fn read_body(mut incoming: Incoming, largest: usize) -> Result<Bytes, Trouble> {
    let mut first: Option<Bytes> = None;
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| Trouble::HalfAnswer(root_cause(&error)))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if body.len() + chunk.len() > largest {
            return Err(Trouble::TooLarge);
        }
        // Without a copy where it comes in one piece.
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

/// Whether a connection ended because of bytes that came while no answer was awaited. The library has no name for that
/// error: it is the one that is none of the others and has no cause.
fn is_unexpected(error: &hyper::Error) -> bool {
    let is_other = error.is_parse()
        || error.is_user()
        || error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || error.is_timeout();
    !is_other && std::error::Error::source(error).is_none()
}

/// A stream that is read from the kernel before the event loop is asked.
struct Wire(TokioIo<TcpStream>);

impl Read for Wire {
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
            // Nothing yet: now the event loop has to tell when there is something.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Pin::new(&mut self.0).poll_read(context, buffer)
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Write for Wire {
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

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
