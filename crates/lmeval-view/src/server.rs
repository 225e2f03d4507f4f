//! The HTTP server: read-only, on loopback unless a host is named.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lmeval_core::Diagnostic;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::Error;
use crate::address::{is_own_host, parameters};
use crate::api::ApiError;
use crate::assets::asset;
use crate::peer::is_of_another_user;
use crate::viewer::{Live, Viewer, to_json};

/// The port if none is asked for; the next free one if it is taken.
const PORT: u16 = 7373;

/// Ports that are tried.
const TRIED: u16 = 20;

/// Time between two states of a running evaluation.
const INTERVAL: Duration = Duration::from_millis(500);

/// Threads that read files for requests.
const READERS: usize = 8;

/// Connections that are open at a time; others wait. Each takes a file descriptor, of which some systems have 256.
const CONNECTIONS: usize = 128;

/// How long a client may take to send the head of its request.
const HEAD: Duration = Duration::from_secs(10);

/// How long it may take while others wait for a connection.
const SLOW: Duration = Duration::from_secs(4);

/// How long the server waits before it ends connections of slow clients, and after the system refused it a connection.
const PAUSE: Duration = Duration::from_millis(200);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; media-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where a server listens.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// A name or address. Loopback if not set; anything else needs the token of [`Server::url`].
    pub host: Option<String>,
    /// The port; 0 for any free one.
    pub port: Option<u16>,
}

/// A running server. It stops when it is dropped.
pub struct Server {
    url: String,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    followers: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by handlers.
struct ViewerState {
    viewer: Arc<Viewer>,
    host: String,
    port: u16,
    is_loopback: bool,
    token: Option<String>,
    stop: watch::Receiver<bool>,
    /// Pages that follow the running evaluation.
    followers: Arc<AtomicUsize>,
}

impl Server {
    /// Binds the port and serves on a thread of its own.
    pub fn start(viewer: Arc<Viewer>, listen: &Listen) -> Result<Self, Error> {
        let host = listen.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
        let listener = bind(&host, listen.port)?;
        let failed = |error: std::io::Error| Diagnostic::new("Cannot start the server").caused_by(error);
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let is_loopback = address.ip().is_loopback();
        let token = if is_loopback { None } else { Some(new_token().map_err(failed)?) };
        let url = url(&host, address, token.as_deref());
        let (stop, stopped) = watch::channel(false);
        let followers = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(ViewerState {
            followers: Arc::clone(&followers),
            viewer,
            host,
            port: address.port(),
            is_loopback,
            token,
            stop: stopped.clone(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(READERS)
            .thread_name("view")
            .enable_all()
            .build()
            .map_err(failed)?;
        let serve = move || {
            runtime.block_on(serve(listener, shared, stopped));
            runtime.shutdown_timeout(Duration::from_millis(100));
        };
        let thread = std::thread::Builder::new().name("view".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { url, address, stop, followers, thread: Some(thread) })
    }

    /// The address to open, with the token if there is one.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a page follows the running evaluation.
    pub fn is_watched(&self) -> bool {
        self.followers.load(Ordering::Relaxed) > 0
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            // Nothing can be done about a thread that panicked: requests have their own tasks.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bind(host: &str, port: Option<u16>) -> Result<TcpListener, Error> {
    let cannot = |port: u16| {
        Diagnostic::new(format!("Cannot listen on {host}:{port}"))
            .hint("Choose another address with --host and --port; --port 0 takes any free port")
    };
    let first = port.unwrap_or(PORT);
    let ports = if port.is_some() { first..=first } else { first..=first + TRIED };
    let mut problem = None;
    for port in ports {
        let addresses = (host, port).to_socket_addrs().map_err(|error| cannot(port).caused_by(error))?;
        for address in addresses {
            match TcpListener::bind(address) {
                Ok(listener) => return Ok(listener),
                Err(error) => problem = Some(error),
            }
        }
    }
    let error = cannot(first);
    Err(match problem {
        Some(problem) => error.caused_by(problem),
        None => error,
    }
    .into())
}

/// 128 random bits.
#[cfg(unix)]
fn new_token() -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(crate::catalog::hex(&bytes))
}

/// Refuses: a token needs the random numbers of a Unix system.
#[cfg(not(unix))]
fn new_token() -> std::io::Result<String> {
    Err(std::io::Error::other("--host with an address other than loopback works on Linux and macOS only"))
}

fn url(host: &str, address: SocketAddr, token: Option<&str>) -> String {
    let shown = match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => "localhost".to_owned(),
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => host.to_owned(),
    };
    let token = token.map(|token| format!("?token={token}")).unwrap_or_default();
    format!("http://{shown}:{}/{token}", address.port())
}

async fn serve(listener: TcpListener, shared: Arc<ViewerState>, mut stopped: watch::Receiver<bool>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let end = async move {
        // An error means that the server was dropped.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let accept = async {
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        let waiting = Arc::new(Waiting::default());
        for id in 0.. {
            let permit = loop {
                match tokio::time::timeout(PAUSE, Arc::clone(&free).acquire_owned()).await {
                    Ok(Ok(permit)) => break permit,
                    // The semaphore is never closed.
                    Ok(Err(_)) => return,
                    Err(_) => waiting.evict(),
                }
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let connection = Connection { id, peer, shared: Arc::clone(&shared), permit };
                    let evicted = waiting.add(id);
                    drop(tokio::spawn(connection.serve(stream, Arc::clone(&waiting), evicted)));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = end => {}
    }
}

/// Connections that have not sent a whole request yet. When there are too many, those that are slow end, so that they keep out only each
/// other.
#[derive(Default)]
struct Waiting(Mutex<Pending>);

/// The start of each connection, and a sender whose end ends it.
type Pending = BTreeMap<u64, (Instant, oneshot::Sender<()>)>;

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection; the receiver fails when it is evicted.
    fn add(&self, id: u64) -> oneshot::Receiver<()> {
        let (sender, evicted) = oneshot::channel();
        self.lock().insert(id, (Instant::now(), sender));
        evicted
    }

    /// Takes a connection out, which cannot be evicted while the sender exists.
    fn take(&self, id: u64) -> Option<oneshot::Sender<()>> {
        self.lock().remove(&id).map(|(_, sender)| sender)
    }

    fn evict(&self) {
        self.lock().retain(|_, (start, _)| start.elapsed() < SLOW);
    }
}

struct Connection {
    id: u64,
    peer: SocketAddr,
    shared: Arc<ViewerState>,
    permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Answers one request: clients that keep connections open would leave none for others.
    async fn serve(self, stream: TcpStream, waiting: Arc<Waiting>, evicted: oneshot::Receiver<()>) {
        let Self { id, peer, shared, permit } = self;
        let _permit = permit;
        let is_foreign =
            shared.is_loopback && stream.local_addr().is_ok_and(|own| is_of_another_user(peer, own));
        let kept = Mutex::new(None);
        let answer = service_fn(|request: hyper::Request<Incoming>| {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = waiting.take(id);
            let shared = Arc::clone(&shared);
            async move {
                let (request, _) = request.into_parts();
                Ok::<_, std::convert::Infallible>(handle(&shared, &request, is_foreign).await)
            }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
        tokio::select! {
            // An error is a client that went away or was too slow.
            _ = server.serve_connection(TokioIo::new(stream), answer) => {}
            _ = evicted => {}
        }
        waiting.take(id);
    }
}

async fn handle(shared: &Arc<ViewerState>, request: &Parts, is_foreign: bool) -> Response {
    let mut response = if is_foreign {
        let hint = "Ask that user for a report: `lm-eval report`. With --host the viewer answers everybody who has its token";
        refuse(StatusCode::FORBIDDEN, "This viewer belongs to another user of this machine", Some(hint))
    } else {
        respond(shared, request).await
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if request.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn respond(shared: &Arc<ViewerState>, request: &Parts) -> Response {
    let host = text(&request.headers, header::HOST);
    let host = if host.is_empty() { request.uri.host().unwrap_or_default() } else { host };
    if !is_own_host(host, &shared.host, shared.is_loopback) {
        let hint = "Open the address that `lm-eval view` printed; --host NAME allows another name";
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "This server does not answer to that name",
            Some(hint),
        );
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "This server only answers GET", None);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if request.uri.path().starts_with("/api/") && is_of_another_site(&request.headers, host) {
        return refuse(StatusCode::FORBIDDEN, "A page of another site asked for this", None);
    }
    let Some(parameters) = parameters(request.uri.query().unwrap_or_default()) else {
        return refuse(StatusCode::BAD_REQUEST, "The address has a wrong escape", None);
    };
    let path = request.uri.path();
    if let Some(token) = &shared.token {
        let given = parameters.iter().find(|(name, _)| name == "token").map(|(_, value)| value.as_str());
        let name = format!("lm_eval_{}", shared.port);
        if given.is_some_and(|given| is_equal(given, token)) && path == "/" {
            // The token leaves the address, so that it is in no screenshot and no link.
            return remember(&name, token);
        }
        let cookie = cookie(&request.headers, &name);
        if !given.or(cookie.as_deref()).is_some_and(|given| is_equal(given, token)) {
            let hint = "Open the address with the token that `lm-eval view` printed";
            return refuse(StatusCode::UNAUTHORIZED, "A token is needed", Some(hint));
        }
    }
    if let Some(asset) = asset(path) {
        let accepts_gzip = text(&request.headers, header::ACCEPT_ENCODING).contains("gzip");
        let body = if accepts_gzip { Body::from(asset.compressed()) } else { Body::from(asset.content) };
        let mut response = answer(StatusCode::OK, asset.kind, body);
        if accepts_gzip {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        return response;
    }
    let path = path.trim_start_matches('/').to_owned();
    if path == "api/live" {
        return match shared.viewer.live() {
            Some(live) => follow(Arc::clone(live), shared.stop.clone(), Arc::clone(&shared.followers)),
            None => refuse(StatusCode::NOT_FOUND, "No evaluation runs in this process", None),
        };
    }
    let viewer = Arc::clone(&shared.viewer);
    let work = tokio::task::spawn_blocking(move || match viewer.answer(&path, &parameters) {
        Ok(value) => (StatusCode::OK, value),
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, to_json(&refusal.to_answer()))
        }
    });
    match work.await {
        Ok((status, value)) => answer(status, "application/json", Body::from(value)),
        Err(_) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "The request failed because of a bug in lm-eval", None)
        }
    }
}

fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn refuse(status: StatusCode, error: &str, hint: Option<&str>) -> Response {
    let problem = ApiError { error: error.to_owned(), hint: hint.map(str::to_owned), status: None };
    answer(status, "application/json", Body::from(to_json(&problem)))
}

fn remember(name: &str, token: &str) -> Response {
    let mut response = answer(StatusCode::SEE_OTHER, "text/plain", Body::empty());
    let cookie = format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    response
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a browser sent the request for a page of another site. Such a page cannot read the answer, but could keep the server busy.
fn is_of_another_site(headers: &HeaderMap, host: &str) -> bool {
    let origin = text(headers, header::ORIGIN);
    let is_own = origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host));
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok()).unwrap_or("none");
    (!origin.is_empty() && !is_own) || !matches!(site, "none" | "same-origin")
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = text(headers, header::COOKIE).split(';').filter_map(|pair| pair.trim().split_once('='));
    cookies.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// Compares in a time that does not depend on where the strings differ.
fn is_equal(given: &str, token: &str) -> bool {
    given.len() == token.len()
        && given.bytes().zip(token.bytes()).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// Sends the state of a running evaluation as server-sent events until it ends.
fn follow(live: Arc<dyn Live>, mut stop: watch::Receiver<bool>, followers: Arc<AtomicUsize>) -> Response {
    let (sender, receiver) = mpsc::channel(2);
    followers.fetch_add(1, Ordering::Relaxed);
    let end = Counted(followers);
    tokio::spawn(async move {
        let _end = end;
        let mut previous = String::new();
        loop {
            let source = Arc::clone(&live);
            let Ok(state) = tokio::task::spawn_blocking(move || source.state()).await else { return };
            let text = to_json(&state);
            if text != previous && sender.send(Bytes::from(format!("data: {text}\n\n"))).await.is_err() {
                return;
            }
            if state.finished {
                return;
            }
            previous = text;
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = async { drop(stop.wait_for(|stop| *stop).await) } => return,
                () = sender.closed() => return,
            }
        }
    });
    answer(StatusCode::OK, "text/event-stream", Body::new(Events(receiver)))
}

/// Counts a follower until it is gone.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body of chunks that arrive over time.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
