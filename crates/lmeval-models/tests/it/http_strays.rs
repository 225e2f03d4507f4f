//! Servers that send unsolicited answers.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use axum::body::Bytes;
use lmeval_core::ModelError;
use lmeval_models::http::{BadAnswer, Call, Client};

use crate::http_support::client;

/// Handles a request, given its index on the connection and its body.
type Behaviour = fn(&mut TcpStream, usize, &str);

/// A server that keeps connections open.
struct Server {
    url: String,
    connections: Arc<AtomicUsize>,
    /// Signals each request once everything about it has been written.
    written: Receiver<()>,
}

fn serve(behave: Behaviour) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let (signal, written) = channel();
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            stream.set_nodelay(true).unwrap();
            let signal = signal.clone();
            std::thread::spawn(move || {
                for index in 0.. {
                    let Some(body) = read_request(&mut stream) else { return };
                    behave(&mut stream, index, &body);
                    let _ = signal.send(());
                }
            });
        }
    });
    Server { url, connections, written }
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&received).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => received.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Sends a number to a server that echoes it.
async fn echoed(client: &Client, number: i64) -> Result<i64, ModelError> {
    let body = Bytes::from(number.to_string());
    let call = Call { path: "", body, about: "", tokens: 0, scores: false };
    let read = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.trim().parse::<i64>().map_err(|error| BadAnswer::Retry(error.to_string()))
    };
    client.post(call, read).await
}

/// One thread: while the test waits for the server, the event loop does not learn what the kernel has
/// received.
#[tokio::test(flavor = "current_thread")]
async fn ignores_bytes_received_before_the_request() {
    let server = serve(|stream, _, body| {
        let _ = stream.write_all(answer(body).as_bytes());
        // Not in the same segment, as the answer must be complete before the stray arrives.
        std::thread::sleep(Duration::from_millis(2));
        let _ = stream.write_all(answer("666").as_bytes());
    });
    for round in 0..10 {
        let client = client(&server.url, |_| {});
        assert_eq!(echoed(&client, round).await.unwrap(), round);
        server.written.recv().unwrap();
        // Longer than a connection rests, so that it is reused.
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(echoed(&client, 1000 + round).await.unwrap(), 1000 + round);
        server.written.recv().unwrap();
        drop(client);
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn discards_an_answer_followed_by_a_stray_on_a_reused_connection() {
    let server = serve(|stream, index, body| {
        let stray = if index == 1 { answer("666") } else { String::new() };
        let _ = stream.write_all(format!("{stray}{}", answer(body)).as_bytes());
    });
    let client = client(&server.url, |_| {});
    for number in 0..6 {
        assert_eq!(echoed(&client, number).await.unwrap(), number);
    }
    // Connections are reused until the stray arrives; from then on each request gets a new one, including
    // this one.
    assert_eq!(server.connections.load(Ordering::SeqCst), 6);
    assert!(client.stats().take_warnings()[0].contains("unsolicited answers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn late_strays_do_not_shift_later_answers() {
    let server = serve(|stream, _, body| {
        std::thread::sleep(Duration::from_millis(20));
        let _ = stream.write_all(answer(body).as_bytes());
        let mut late = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(3));
            let _ = late.write_all(answer("666").as_bytes());
        });
    });
    let client = client(&server.url, |_| {});
    for number in 0..20 {
        assert_eq!(echoed(&client, number).await.unwrap(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reuses_connections_of_a_healthy_server() {
    let server = serve(|stream, _, body| {
        let _ = stream.write_all(answer(body).as_bytes());
    });
    let client = client(&server.url, |_| {});
    for number in 0..200 {
        assert_eq!(echoed(&client, number).await.unwrap(), number);
    }
    assert!(server.connections.load(Ordering::SeqCst) <= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_a_closed_connection_without_a_retry() {
    let server = serve(|stream, index, body| {
        let _ = stream.write_all(answer(body).as_bytes());
        if index == 2 {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    let client = client(&server.url, |settings| settings.retry_budget = Some(0));
    for number in 0..12 {
        assert_eq!(echoed(&client, number).await.unwrap(), number);
        server.written.recv().unwrap();
    }
    assert!((4..=8).contains(&server.connections.load(Ordering::SeqCst)));
}
