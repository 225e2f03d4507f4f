//! A hand-written HTTP/1.1 server: injecting faults needs control over the bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answers::{Reply, answer, scripted_reply};
use super::faults::Fault;
use super::{ServerState, hash};

/// Accepts connections until the task is aborted, which closes them.
pub(super) async fn accept(listener: TcpListener, shared: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        shared.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves the requests of one connection until the client closes it.
async fn serve(mut stream: TcpStream, shared: Arc<ServerState>) {
    let mut buffer = Vec::with_capacity(1 << 14);
    while let Some((path, body, used)) = read_request(&mut stream, &mut buffer).await {
        let keep = respond(&mut stream, &shared, &path, &body).await;
        buffer.drain(..used);
        if !keep {
            return;
        }
    }
}

/// Reads the next request: path, body, and the number of buffer bytes it takes.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>, usize)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = content_length(&head);
            let total = end + 4 + length;
            while buffer.len() < total {
                if stream.read_buf(buffer).await.ok()? == 0 {
                    return None;
                }
            }
            let path = head.split(' ').nth(1)?.to_owned();
            return Some((path, buffer[end + 4..total].to_vec(), total));
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn content_length(head: &str) -> usize {
    let mut lengths = head.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    lengths.next_back().unwrap_or(0)
}

/// Answers one request; returns whether the connection stays open.
async fn respond(stream: &mut TcpStream, shared: &ServerState, path: &str, body: &[u8]) -> bool {
    let options = &shared.options;
    if options.canned && path == "/v1/completions" {
        return respond_canned(stream, shared, body).await;
    }
    if path == "/v1/models"
        && let Some((status, body)) = shared.models_response()
    {
        return write(stream, &Reply { status, headers: String::new(), body: body.into_bytes() }).await;
    }
    let id = hash(path.bytes().chain(body.iter().copied()));
    let is_model = ["/v1/", "/generate", "/inference/"].iter().any(|start| path.starts_with(start));
    let counted = is_model && !body.is_empty();
    let mut before = 0;
    if counted {
        let mut counts = shared.counts();
        counts.first.get_or_insert_with(SystemTime::now);
        let received = counts.received.entry(id).or_default();
        before = *received;
        *received += 1;
        if options.keep_bodies {
            let body = String::from_utf8_lossy(body).into_owned();
            counts.bodies.push((path.to_owned(), body));
        }
    }
    let delay = shared.delay();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let fault = if counted { options.faults.pick(id, before) } else { None };
    let script = match path {
        "/v1/chat/completions" => options.chat,
        "/v1/completions" => options.completions,
        _ => None,
    };
    let scripted = script.and_then(|script| scripted_reply(script, body, before));
    if let (None, Some(reply)) = (fault, &scripted)
        && reply.status != 200
    {
        return write(stream, reply).await;
    }
    let written = match fault {
        None if scripted.is_some() => match &scripted {
            Some(reply) => write(stream, reply).await,
            None => false,
        },
        Some(fault) => return misbehave(stream, fault, &answer(options, path, body)).await,
        None => write(stream, &answer(options, path, body)).await,
    };
    if counted && written {
        let mut counts = shared.counts();
        *counts.answered.entry(id).or_default() += 1;
        counts.last = Some(SystemTime::now());
    }
    written
}

/// What asks for a stream in a body.
const STREAM: &[u8] = b"\"stream\": true";

/// Sends the canned answer token by token.
async fn write_stream(stream: &mut TcpStream) -> bool {
    let token = |text: &str, reason: &str| {
        format!(
            "data: {{\"choices\": [{{\"index\": 0, \"text\": \"{text}\", \"finish_reason\": {reason}}}]}}\n\n"
        )
    };
    let mut events: Vec<String> = [" the", " answer", " is"].iter().map(|text| token(text, "null")).collect();
    events.push(token(" yes", "\"stop\""));
    events.push(
        "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 4}}\n\n".to_owned(),
    );
    events.push("data: [DONE]\n\n".to_owned());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    if stream.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    for event in events {
        // Each event in a packet of its own, as servers send them.
        if stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.is_err() {
            return false;
        }
    }
    stream.write_all(b"0\r\n\r\n").await.is_ok()
}

/// Sends the canned answer.
async fn respond_canned(stream: &mut TcpStream, shared: &ServerState, body: &[u8]) -> bool {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 137\r\n\r\n\
        {\"choices\": [{\"index\": 0, \"text\": \" the answer is yes\", \"finish_reason\": \"stop\"}], \
        \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 4}}";
    let is_streamed = body.windows(STREAM.len()).any(|window| window == STREAM);
    let written =
        if is_streamed { write_stream(stream).await } else { stream.write_all(ANSWER).await.is_ok() };
    let mut counts = shared.counts();
    let now = SystemTime::now();
    counts.first.get_or_insert(now);
    counts.last = Some(now);
    counts.canned += 1;
    written
}

async fn misbehave(stream: &mut TcpStream, fault: Fault, reply: &Reply) -> bool {
    let faulty = |status, headers: String, body: &str| Reply { status, headers, body: body.into() };
    let message = r#"{"error": {"message": "trouble"}}"#;
    match fault {
        Fault::TooMany => write(stream, &faulty(429, String::new(), message)).await,
        Fault::TooManyUntil(seconds) => {
            write(stream, &faulty(429, format!("retry-after: {seconds}\r\n"), message)).await
        }
        Fault::Status(status) => write(stream, &faulty(status, String::new(), message)).await,
        Fault::InvalidJson => write(stream, &faulty(200, String::new(), "{\"choices\": [")).await,
        Fault::WrongShape => write(stream, &faulty(200, String::new(), "{\"choices\": 7}")).await,
        Fault::Closed => false,
        Fault::NoChoices => write(stream, &faulty(200, String::new(), "{\"choices\": []}")).await,
        Fault::ErrorObject => write(stream, &faulty(200, String::new(), message)).await,
        Fault::Html => write(stream, &faulty(200, String::new(), "<html><body>Login</body></html>")).await,
        Fault::NullChoice => {
            let nulls = [("text", Value::Null), ("logprobs", Value::Null)];
            write(stream, &changed(reply, |choices| nulls.map(|(name, null)| choices[0][name] = null))).await
        }
        Fault::TwoChoices => {
            let double = |choices: &mut Value| {
                let mut second = choices[0].clone();
                second["index"] = 1.into();
                choices.as_array_mut().map(|choices| choices.push(second))
            };
            write(stream, &changed(reply, double)).await
        }
        Fault::Aborted => {
            write(stream, &changed(reply, |choices| choices[0]["finish_reason"] = "abort".into())).await
        }
        Fault::Stray => {
            let stray = changed(reply, |choices| choices[0]["text"] = " no, yes, no".into());
            let replies = [reply, &stray].map(|reply| [head(reply).as_bytes(), &reply.body].concat());
            stream.write_all(&replies.concat()).await.is_ok()
        }
        Fault::HalfBody => {
            let head = head(reply);
            let half = reply.body.len() / 2;
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&reply.body[..half]).await;
            false
        }
        Fault::SlowBody(time) => {
            let bytes = [head(reply).as_bytes(), &reply.body].concat();
            let parts = 4;
            for part in bytes.chunks(bytes.len().div_ceil(parts)) {
                if stream.write_all(part).await.is_err() {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(time / parts as u64)).await;
            }
            true
        }
    }
}

/// A copy of a reply with changed choices.
fn changed<T>(reply: &Reply, change: impl FnOnce(&mut Value) -> T) -> Reply {
    let mut body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    change(&mut body["choices"]);
    Reply { status: reply.status, headers: reply.headers.clone(), body: body.to_string().into_bytes() }
}

fn head(reply: &Reply) -> String {
    let Reply { status, headers, body } = reply;
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    )
}

async fn write(stream: &mut TcpStream, reply: &Reply) -> bool {
    let bytes = [head(reply).as_bytes(), &reply.body].concat();
    stream.write_all(&bytes).await.is_ok()
}
