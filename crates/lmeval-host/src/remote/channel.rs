//! An authenticated connection between a run and a worker.
//!
//! Both sides prove that they know the token by answering a challenge, so neither a stranger that connects nor a stranger that
//! listens learns anything. Every frame after that has a tag over its index and its content. Nothing is encrypted.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The first bytes of both sides, with the version of the protocol.
const GREETING: &[u8; 16] = b"lm-eval worker 1";

/// How long a side of the handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The size of a challenge and of a tag in bytes.
const SIZE: usize = 32;

/// Longer frames are considered malformed.
const MAX_FRAME: u64 = 1 << 36;

/// The shortest token in characters.
const SHORTEST: usize = 16;

/// A secret that a run and its workers share.
#[derive(Clone)]
pub struct Token(hmac::Key);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a token from a file that only its owner can read.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let shown = path.display();
        let create = format!("Create one with `(umask 077; openssl rand -hex 32 > {shown})`");
        let wrong = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
        let text = fs_err::read_to_string(path)
            .map_err(|error| wrong(format!("Cannot read the token file `{shown}`: {error}")).hint(&create))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs_err::metadata(path).map(|metadata| metadata.permissions().mode());
            if mode.is_ok_and(|mode| mode & 0o077 != 0) {
                return Err(wrong(format!("Other users can read the token file `{shown}`"))
                    .hint(format!("Run `chmod 600 {shown}`")));
            }
        }
        let text = text.trim();
        if text.len() < SHORTEST {
            return Err(
                wrong(format!("The token in `{shown}` is shorter than {SHORTEST} characters")).hint(create)
            );
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    fn sign(&self, role: &str, challenges: [&[u8; SIZE]; 2]) -> hmac::Tag {
        hmac::sign(&self.0, &claim(role, challenges))
    }
}

/// The bytes that a proof is computed from.
fn claim(role: &str, [run, worker]: [&[u8; SIZE]; 2]) -> Vec<u8> {
    [role.as_bytes(), run, worker].concat()
}

/// Why a connection could not be established.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// The other side does not speak this protocol.
    #[error("it does not speak the protocol of lm-eval workers")]
    Stranger,
    /// The other side has another token.
    #[error("it has another token")]
    Token,
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The run, which listens.
    Run,
    /// The worker, which connects.
    Worker,
}

/// Sends frames.
pub(super) struct Sender {
    stream: TcpStream,
    key: hmac::Key,
    sent: u64,
    buffer: Vec<u8>,
}

/// Receives frames.
pub(super) struct Receiver {
    stream: io::BufReader<TcpStream>,
    key: hmac::Key,
    received: u64,
}

/// Authenticates both sides of a new connection.
pub(super) fn handshake(
    mut stream: TcpStream,
    token: &Token,
    side: Side,
) -> Result<(Sender, Receiver), HandshakeError> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
    stream.set_write_timeout(Some(HANDSHAKE_LIMIT))?;
    let own = challenge()?;
    stream.write_all(&[&GREETING[..], &own].concat())?;
    let mut greeting = [0; GREETING.len()];
    read(&mut stream, &mut greeting)?;
    if greeting != *GREETING {
        return Err(HandshakeError::Stranger);
    }
    let mut other = [0; SIZE];
    read(&mut stream, &mut other)?;
    let (run, worker) = if side == Side::Run { (&own, &other) } else { (&other, &own) };
    let (mine, theirs) = if side == Side::Run { ("run", "worker") } else { ("worker", "run") };
    // The worker proves itself first: a stranger that connects gets nothing that depends on the token.
    let mut tag = [0; SIZE];
    if side == Side::Worker {
        stream.write_all(token.sign(mine, [run, worker]).as_ref())?;
    }
    read(&mut stream, &mut tag).map_err(|error| match error {
        // The run closes the connection if the proof is wrong.
        HandshakeError::Stranger if side == Side::Worker => HandshakeError::Token,
        error => error,
    })?;
    hmac::verify(&token.0, &claim(theirs, [run, worker]), &tag).map_err(|_| HandshakeError::Token)?;
    if side == Side::Run {
        stream.write_all(token.sign(mine, [run, worker]).as_ref())?;
    }
    let key = |role: &str| {
        let secret = token.sign(&format!("frames of the {role}"), [run, worker]);
        hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())
    };
    let sender = Sender { stream: stream.try_clone()?, key: key(mine), sent: 0, buffer: Vec::new() };
    let stream = io::BufReader::with_capacity(1 << 16, stream);
    Ok((sender, Receiver { stream, key: key(theirs), received: 0 }))
}

fn challenge() -> io::Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes)
}

/// Reads bytes of the handshake; a side that closes the connection or says nothing is a stranger.
fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> Result<(), HandshakeError> {
    stream.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::TimedOut => HandshakeError::Stranger,
        _ => HandshakeError::Io(error),
    })
}

impl Sender {
    /// Sends a frame: its length, its content, and its tag.
    pub(super) fn send(&mut self, body: &str) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&(body.len() as u64).to_be_bytes());
        self.buffer.extend_from_slice(body.as_bytes());
        self.buffer.extend_from_slice(tag(&self.key, self.sent, body.as_bytes()).as_ref());
        self.sent += 1;
        self.stream.write_all(&self.buffer)
    }

    /// How long a frame may take to be sent.
    pub(super) fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(limit))
    }

    /// Closes the connection in both directions.
    pub(super) fn close(&self) {
        // Fails if it is closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Receiver {
    /// Receives a frame. Fails if its tag is wrong, or if nothing arrives within the limit.
    pub(super) fn receive(&mut self) -> io::Result<String> {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head)?;
        let length = u64::from_be_bytes(head);
        if length > MAX_FRAME {
            return Err(io::Error::other(format!("a frame of {length} bytes")));
        }
        // The tag is over the number of the frame, too.
        let mut body = self.received.to_be_bytes().to_vec();
        if self.stream.by_ref().take(length).read_to_end(&mut body)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut found = [0; SIZE];
        self.stream.read_exact(&mut found)?;
        hmac::verify(&self.key, &body, &found)
            .map_err(|_| io::Error::other("a frame that was changed on its way"))?;
        self.received += 1;
        body.drain(..8);
        String::from_utf8(body).map_err(|_| io::Error::other("a frame that is not UTF-8"))
    }

    /// How long to wait for the next bytes.
    pub(super) fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(limit))
    }
}

fn tag(key: &hmac::Key, number: u64, body: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(&number.to_be_bytes());
    context.update(body);
    context.sign()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn token(text: &str) -> Token {
        Token(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))
    }

    type Made = Result<(Sender, Receiver), HandshakeError>;

    fn connect(run: &'static str, worker: &'static str) -> (Made, Made) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = thread::spawn(move || {
            handshake(TcpStream::connect(address).unwrap(), &token(worker), Side::Worker)
        });
        let (stream, _) = listener.accept().unwrap();
        let made = handshake(stream, &token(run), Side::Run);
        (made, other.join().unwrap())
    }

    #[test]
    fn frames_arrive_in_both_directions() {
        let (run, worker) = connect("secret", "secret");
        let (mut run, mut worker) = (run.unwrap(), worker.unwrap());
        for text in ["", "one", "zwei\n€"] {
            run.0.send(text).unwrap();
            assert_eq!(worker.1.receive().unwrap(), text);
            worker.0.send(text).unwrap();
            assert_eq!(run.1.receive().unwrap(), text);
        }
    }

    #[test]
    fn both_sides_notice_another_token() {
        let (run, worker) = connect("secret", "other");
        assert!(matches!(run, Err(HandshakeError::Token)));
        assert!(matches!(worker, Err(HandshakeError::Token)), "{:?}", worker.err());
    }

    #[test]
    fn changed_and_repeated_frames_are_refused() {
        for change in [|bytes: &mut Vec<u8>| bytes[9] ^= 1, |bytes: &mut Vec<u8>| bytes.extend(bytes.clone())]
        {
            let (run, worker) = connect("secret", "secret");
            let (mut run, mut worker) = (run.unwrap(), worker.unwrap());
            run.0.send("hello").unwrap();
            worker.1.receive().unwrap();
            let mut frame = 5_u64.to_be_bytes().to_vec();
            frame.extend_from_slice(b"hello");
            frame.extend_from_slice(tag(&run.0.key, 1, b"hello").as_ref());
            change(&mut frame);
            run.0.stream.write_all(&frame).unwrap();
            run.0.close();
            let results = [worker.1.receive(), worker.1.receive()];
            assert!(results.iter().any(|result| {
                result.as_ref().is_err_and(|error| error.to_string().contains("changed on its way"))
            }));
        }
    }
}
