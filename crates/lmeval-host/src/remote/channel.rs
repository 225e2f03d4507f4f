//! An authenticated connection between a run and a worker.
//!
//! Both sides prove that they know the token by answering a challenge, so neither a stranger that connects nor a stranger that
//! listens learns anything. Every frame after that has a tag over its index and its content. Encryption is left to TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::Connection;

use super::stream::Stream;

/// The first bytes of both sides, with the version of the protocol.
pub(super) const GREETING: &[u8; 16] = b"lm-eval worker 2";

/// The first byte of TLS: a handshake or an alert.
const TLS_RECORDS: [u8; 2] = [0x16, 0x15];

/// How long a side of the handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The size of a challenge and of a tag in bytes.
const SIZE: usize = 32;

/// The longest frame of a side that has not yet sent a frame with a valid tag. Somebody between the two ends can forward
/// their handshake, but cannot make such a tag.
const MAX_FIRST_FRAME: u64 = 64 << 10;

/// The longest frame after that, 1 GiB: 32 MiB of requests take less, even if every character is escaped, and an answer is
/// limited to 256 MiB by the journal.
const MAX_FRAME: u64 = 1 << 30;

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
        let text = read_private(path, "token", &create)?;
        let text = text.trim();
        if text.len() < SHORTEST {
            let message = format!("The token in `{shown}` is shorter than {SHORTEST} characters");
            return Err(ModelError::new(ModelErrorKind::Configuration, message).hint(create));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }

    fn sign(&self, claim: &Claim<'_>, role: &str) -> hmac::Tag {
        hmac::sign(&self.0, &claim.bytes(role))
    }
}

/// Reads a secret from a file that only its owner can read. `kind` names it in messages.
pub(super) fn read_private(path: &Path, kind: &str, create: &str) -> Result<String, ModelError> {
    let shown = path.display();
    let wrong = |message: String| ModelError::new(ModelErrorKind::Configuration, message);
    let text = fs_err::read_to_string(path)
        .map_err(|error| wrong(format!("Cannot read the {kind} file `{shown}`: {error}")).hint(create))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs_err::metadata(path).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            return Err(wrong(format!("Other users can read the {kind} file `{shown}`"))
                .hint(format!("Run `chmod 600 {shown}`")));
        }
    }
    Ok(text)
}

/// The facts that a proof is computed from: the challenges of both sides, and their encrypted connection.
struct Claim<'a> {
    run: &'a [u8; SIZE],
    worker: &'a [u8; SIZE],
    binding: &'a [u8],
}

impl Claim<'_> {
    fn bytes(&self, role: &str) -> Vec<u8> {
        [role.as_bytes(), self.run, self.worker, self.binding].concat()
    }
}

/// Why a connection could not be established. The messages are those of the run about a worker.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// The other side does not speak this protocol.
    #[error("it does not speak the protocol of lm-eval workers")]
    Stranger,
    /// The other side has another version of this protocol.
    #[error("it is another version of lm-eval")]
    Release,
    /// The other side is connected, but sends nothing.
    #[error("it said nothing for {} s", HANDSHAKE_LIMIT.as_secs())]
    Silent,
    /// The other side has another token.
    #[error("it has another token")]
    Token,
    /// The other side does not use TLS.
    #[error("it does not use TLS: start it with `--tls_ca FILE`")]
    Plain,
    /// The other side uses TLS, and this one does not.
    #[error("it uses TLS, and this run does not: add `tls_cert` and `tls_key` to `--workers`")]
    Encrypted,
    /// The certificate of the run is not accepted here.
    #[error("{0}")]
    Certificate(String),
    /// The certificate of the run is not accepted by the other side.
    #[error("it does not trust the certificate of this run: {0}")]
    Distrust(String),
    #[error("the TLS handshake failed: {0}")]
    Tls(String),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

impl HandshakeError {
    /// The error of reading: a side that closes the connection is a stranger.
    pub(super) fn from_read(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Stranger,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Io(error),
        }
    }
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
    stream: Stream,
    key: hmac::Key,
    sent: u64,
    buffer: Vec<u8>,
}

/// Receives frames.
pub(super) struct Receiver {
    stream: io::BufReader<Stream>,
    key: hmac::Key,
    received: u64,
}

/// Authenticates both sides of a new connection. With `tls`, the connection is encrypted first.
pub(super) fn handshake(
    socket: TcpStream,
    token: &Token,
    side: Side,
    tls: Option<Connection>,
) -> Result<(Sender, Receiver), HandshakeError> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
    socket.set_write_timeout(Some(HANDSHAKE_LIMIT))?;
    let is_plain = tls.is_none();
    let mut stream = Stream::open(socket, tls)?;
    let own = challenge()?;
    stream.write_all(&[&GREETING[..], &own].concat())?;
    let mut greeting = [0; GREETING.len()];
    read(&mut stream, &mut greeting[..1])?;
    if is_plain && TLS_RECORDS.contains(&greeting[0]) {
        stream.linger();
        return Err(HandshakeError::Encrypted);
    }
    read(&mut stream, &mut greeting[1..])?;
    if greeting != *GREETING {
        let version = GREETING.len() - 1;
        let is_other = greeting[..version] == GREETING[..version];
        return Err(if is_other { HandshakeError::Release } else { HandshakeError::Stranger });
    }
    let mut other = [0; SIZE];
    read(&mut stream, &mut other)?;
    let binding = stream.binding()?;
    let (run, worker) = if side == Side::Run { (&own, &other) } else { (&other, &own) };
    let claim = Claim { run, worker, binding: &binding };
    let (mine, theirs) = if side == Side::Run { ("run", "worker") } else { ("worker", "run") };
    // The worker proves itself first: a stranger that connects gets nothing that depends on the token.
    let mut tag = [0; SIZE];
    if side == Side::Worker {
        stream.write_all(token.sign(&claim, mine).as_ref())?;
    }
    read(&mut stream, &mut tag)?;
    if hmac::verify(&token.0, &claim.bytes(theirs), &tag).is_err() {
        if side == Side::Run {
            // Not a proof, so the worker knows that it has another token: not that the run is gone.
            stream.write_all(&[0; SIZE])?;
        }
        return Err(HandshakeError::Token);
    }
    if side == Side::Run {
        stream.write_all(token.sign(&claim, mine).as_ref())?;
    }
    let key = |role: &str| {
        let secret = token.sign(&claim, &format!("frames of the {role}"));
        hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref())
    };
    let sender = Sender { stream: stream.half()?, key: key(mine), sent: 0, buffer: Vec::new() };
    let receiver =
        Receiver { key: key(theirs), stream: io::BufReader::with_capacity(1 << 16, stream), received: 0 };
    Ok((sender, receiver))
}

fn challenge() -> io::Result<[u8; SIZE]> {
    let mut bytes = [0; SIZE];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes)
}

fn read(stream: &mut Stream, bytes: &mut [u8]) -> Result<(), HandshakeError> {
    stream.read_exact(bytes).map_err(HandshakeError::from_read)
}

impl Sender {
    /// Sends a frame: its length, its content, and its tag.
    pub(super) fn send(&mut self, body: &str) -> io::Result<()> {
        let (length, limit) = (body.len() as u64, if self.sent == 0 { MAX_FIRST_FRAME } else { MAX_FRAME });
        if length > limit {
            return Err(io::Error::other(format!(
                "a message of {length} bytes, more than the limit of {limit}"
            )));
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(&(body.len() as u64).to_be_bytes());
        self.buffer.extend_from_slice(body.as_bytes());
        self.buffer.extend_from_slice(tag(&self.key, self.sent, body.as_bytes()).as_ref());
        self.sent += 1;
        self.stream.write_all(&self.buffer)
    }

    /// How long a frame may take to be sent.
    pub(super) fn set_limit(&self, limit: Duration) -> io::Result<()> {
        self.stream.socket().set_write_timeout(Some(limit))
    }

    /// Closes the connection in both directions.
    pub(super) fn close(&self) {
        // Fails if it is closed already.
        let _ = self.stream.socket().shutdown(Shutdown::Both);
    }
}

impl Receiver {
    /// Receives a frame. Fails if its tag is wrong, or if nothing arrives within the limit.
    pub(super) fn receive(&mut self) -> io::Result<String> {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head)?;
        let length = u64::from_be_bytes(head);
        let limit = if self.received == 0 { MAX_FIRST_FRAME } else { MAX_FRAME };
        if length > limit {
            return Err(io::Error::other(format!(
                "a frame of {length} bytes, more than the limit of {limit}"
            )));
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
        self.stream.get_ref().socket().set_read_timeout(Some(limit))
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
            handshake(TcpStream::connect(address).unwrap(), &token(worker), Side::Worker, None)
        });
        let (stream, _) = listener.accept().unwrap();
        let made = handshake(stream, &token(run), Side::Run, None);
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

    /// Somebody between two ends, who forwarded their handshake, sends the length of a frame and any bytes.
    fn interpose(sender: &mut Sender, length: u64) {
        sender.stream.write_all(&length.to_be_bytes()).unwrap();
        // Fails when the other side has closed the connection.
        let _ = sender.stream.write_all(&vec![b'x'; 1 << 17]);
    }

    #[test]
    fn long_frames_are_refused_before_they_are_read() {
        let refusal = |receiver: &mut Receiver| receiver.receive().unwrap_err().to_string();
        for length in [MAX_FIRST_FRAME + 1, 1 << 33, u64::MAX] {
            let (run, worker) = connect("secret", "secret");
            let (mut run, mut worker) = (run.unwrap(), worker.unwrap());
            interpose(&mut worker.0, length);
            assert_eq!(
                refusal(&mut run.1),
                format!("a frame of {length} bytes, more than the limit of 65536")
            );
            interpose(&mut run.0, length);
            assert!(refusal(&mut worker.1).contains("more than the limit of 65536"));
        }
        let (run, worker) = connect("secret", "secret");
        let (mut run, mut worker) = (run.unwrap(), worker.unwrap());
        let long = "x".repeat(1 << 17);
        assert!(worker.0.send(&long).unwrap_err().to_string().contains("more than the limit of 65536"));
        worker.0.send("hello").unwrap();
        assert_eq!(run.1.receive().unwrap(), "hello");
        // A side that has proven a frame may send long ones.
        let sending = thread::spawn(move || {
            worker.0.send(&long).unwrap();
            worker.0
        });
        assert_eq!(run.1.receive().unwrap().len(), 1 << 17);
        interpose(&mut sending.join().unwrap(), MAX_FRAME + 1);
        assert!(refusal(&mut run.1).contains("more than the limit of 1073741824"));
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
