//! Loopback servers with scripted answers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use lmeval_core::ModelError;
use lmeval_models::http::{BadAnswer, Call, Client, ClientSettings};
use secrecy::SecretString;
use tokio::net::TcpSocket;

/// A server with a call counter.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    hits: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

/// A received call: its index, path, headers and body.
pub(crate) struct ReceivedCall {
    pub(crate) hit: usize,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Starts a server that answers with a function.
pub(crate) async fn serve<F, A>(answer: F) -> Server
where
    F: Fn(ReceivedCall) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    serve_on(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
}

/// A socket with a port at which connections are refused until it listens. Nobody else gets the port.
pub(crate) fn reserve() -> TcpSocket {
    reserve_at("127.0.0.1:0".parse().unwrap())
}

/// [`reserve`] at an address, which may be that of another reserved socket.
pub(crate) fn reserve_at(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

/// Starts a server on a listening socket.
pub(crate) fn serve_on<F, A>(listener: tokio::net::TcpListener, answer: F) -> Server
where
    F: Fn(ReceivedCall) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hits);
    let router = Router::new().fallback(move |uri: axum::http::Uri, headers: HeaderMap, body: Bytes| {
        let hit = counted.fetch_add(1, Ordering::SeqCst);
        answer(ReceivedCall { hit, path: uri.to_string(), headers, body })
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    Server { url, hits }
}

/// The byte of a raw answer at which the server pauses.
pub(crate) const PAUSE: u8 = 0;

/// Starts a server that sends raw bytes for each call, then closes the connection.
pub(crate) fn serve_raw(answer: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
    let hits = Arc::new(AtomicUsize::new(0));
    let (counted, answer) = (Arc::clone(&hits), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (counted, answer) = (Arc::clone(&counted), Arc::clone(&answer));
            std::thread::spawn(move || answer_raw(stream, &counted, &*answer));
        }
    });
    Server { url, hits }
}

fn answer_raw(mut stream: TcpStream, hits: &AtomicUsize, answer: &dyn Fn(usize) -> Vec<u8>) {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&received).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break;
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => received.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    for (index, part) in answer(hits.fetch_add(1, Ordering::SeqCst)).split(|byte| *byte == PAUSE).enumerate()
    {
        if index > 0 {
            std::thread::sleep(Duration::from_millis(400));
        }
        // The client may have disconnected.
        let _ = stream.write_all(part);
    }
}

/// A raw HTTP answer.
pub(crate) fn raw(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
        .into_bytes()
}

/// An answer with a status, headers and a body.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.to_owned().into()).unwrap()
}

/// Settings for a server, with short waits.
pub(crate) fn settings(url: &str) -> ClientSettings {
    let mut settings = ClientSettings::new(url);
    settings.retry_wait = Duration::from_millis(4);
    settings.timeout = Duration::from_secs(5);
    settings.patience = Duration::from_secs(5);
    settings.headers = vec![("Authorization".into(), SecretString::from("Bearer sk-secret-key"))];
    settings
}

/// A client with customized settings.
pub(crate) fn client(url: &str, change: impl FnOnce(&mut ClientSettings)) -> Client {
    let mut settings = settings(url);
    change(&mut settings);
    Client::new(settings).unwrap()
}

/// Sends a body and parses the answer as an integer.
pub(crate) async fn ask(client: &Client, body: &'static str) -> Result<i64, ModelError> {
    let call = Call {
        path: "",
        body: Bytes::from_static(body.as_bytes()),
        about: "`task`, document 7",
        tokens: 10,
        scores: false,
    };
    client.post(call, number).await
}

fn number(answer: &[u8]) -> Result<i64, BadAnswer> {
    let text = std::str::from_utf8(answer).map_err(|error| BadAnswer::Retry(error.to_string()))?;
    text.trim().parse().map_err(|_| BadAnswer::Retry("The answer is not a number".into()))
}
