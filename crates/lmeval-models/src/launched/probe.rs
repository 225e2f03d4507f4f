//! Asks a server that starts whether it is ready.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::process::Address;

/// The time limit of a query.
const LIMIT: Duration = Duration::from_secs(2);
/// Longer answers are cut.
const LONGEST: u64 = 1 << 20;

/// The report of a server that is ready.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    /// The longest prompt and answer together, in tokens.
    pub(super) max_length: Option<i64>,
}

/// The report of a server; `None` if it is not ready. Fails if it refuses the key.
pub(super) fn report(address: &Address, key: &str) -> Result<Option<Report>, Refused> {
    let ask = |path| match get(address, key, path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Refused),
        answer => Ok(answer.ok()),
    };
    if ask("/health")?.is_none() {
        return Ok(None);
    }
    let list: Option<Value> = ask("/v1/models")?.and_then(|body| serde_json::from_slice(&body).ok());
    Ok(list.map(|list| Report { max_length: list["data"][0]["max_model_len"].as_i64() }))
}

/// Whether a server says that it cannot answer any more. No answer in time says nothing: it may be busy.
pub(super) fn is_broken(address: &Address, key: &str) -> bool {
    get(address, key, "/health").is_err_and(|error| error.kind() == io::ErrorKind::HostUnreachable)
}

/// A server that answers, but not to this run.
#[derive(Debug)]
pub(super) struct Refused;

/// The body of a successful answer.
fn get(address: &Address, key: &str, path: &str) -> io::Result<Vec<u8>> {
    match address {
        Address::Port(port) => {
            let stream = TcpStream::connect_timeout(&([127, 0, 0, 1], *port).into(), LIMIT)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_write_timeout(Some(LIMIT))?;
            exchange(stream, key, path)
        }
        #[cfg(unix)]
        Address::Socket(socket) => {
            let stream = std::os::unix::net::UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.set_write_timeout(Some(LIMIT))?;
            exchange(stream, key, path)
        }
        #[cfg(not(unix))]
        Address::Socket(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

fn exchange(mut stream: impl Read + Write, key: &str, path: &str) -> io::Result<Vec<u8>> {
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    let status = answer.split(|byte| *byte == b' ').nth(1);
    if matches!(status, Some(b"401" | b"403")) {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    if status == Some(b"503") {
        return Err(io::Error::from(io::ErrorKind::HostUnreachable));
    }
    let is_success = status == Some(b"200");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    match end.filter(|_| is_success) {
        Some(end) => Ok(answer.split_off(end + 4)),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}
