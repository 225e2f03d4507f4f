//! Servers that send answers nobody has asked for.

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

/// What a server does about a request: it is told its place on the connection and its body.
type Behaviour = fn(&mut TcpStream, usize, &str);

/// A server that keeps connections open.
struct Server {
    url: String,
    connections: Arc<AtomicUsize>,
    /// Hears of each request once everything about it has been written.
    written: Receiver<()>,
}

fn serve(behave: Behaviour) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let (told, written) = channel();
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            stream.set_nodelay(true).unwrap();
            let told = told.clone();
            std::thread::spawn(move || {
                for place in 0.. {
                    let Some(body) = read_request(&mut stream) else { return };
                    behave(&mut stream, place, &body);
                    let _ = told.send(());
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

/// The number that a server answers to a number.
async fn echoed(client: &Client, number: i64) -> Result<i64, ModelError> {
    let body = Bytes::from(number.to_string());
    let call = Call { path: "", body, about: "", tokens: 0, scores: false };
    let read = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.trim().parse::<i64>().map_err(|error| BadAnswer::Retry(error.to_string()))
    };
    client.post(call, read).await
}

/// One thread: while the test waits for the server, nothing tells the event loop what the kernel has.
#[tokio::test(flavor = "current_thread")]
async fn bytes_that_came_before_a_request_are_not_its_answer() {
    let server = serve(|stream, _, body| {
        let _ = stream.write_all(answer(body).as_bytes());
        // Not in the same segment, as the answer must be complete before the stray comes.
        std::thread::sleep(Duration::from_millis(2));
        let _ = stream.write_all(answer("666").as_bytes());
    });
    for round in 0..10 {
        let client = client(&server.url, |_| {});
        assert_eq!(echoed(&client, round).await.unwrap(), round);
        server.written.recv().unwrap();
        // Longer than a connection rests, so that it is taken again.
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(echoed(&client, 1000 + round).await.unwrap(), 1000 + round);
        server.written.recv().unwrap();
        drop(client);
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_another_behind_it_is_not_believed_on_a_used_connection() {
    let server = serve(|stream, place, body| {
        let stray = if place == 1 { answer("666") } else { String::new() };
        let _ = stream.write_all(format!("{stray}{}", answer(body)).as_bytes());
    });
    let client = client(&server.url, |_| {});
    for number in 0..6 {
        assert_eq!(echoed(&client, number).await.unwrap(), number);
    }
    // Connections are used again until the stray comes; from then on each request has its own, that one included.
    assert_eq!(server.connections.load(Ordering::SeqCst), 6);
    assert!(client.stats().take_warnings()[0].contains("unsolicited answers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_too_late_to_be_noticed_before_a_request_do_not_shift_all_others() {
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
async fn connections_of_a_sound_server_are_used_again() {
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
async fn a_connection_that_the_server_has_closed_is_replaced_without_a_retry() {
    let server = serve(|stream, place, body| {
        let _ = stream.write_all(answer(body).as_bytes());
        if place == 2 {
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
