//! The bytes of a connection, plain or encrypted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::Connection;

use super::channel::{GREETING, HandshakeError};
use super::tls;

/// Encrypted bytes read at a time.
const RECORDS: usize = 1 << 16;
/// How long to wait for the other side to close a refused connection.
const LINGER: Duration = Duration::from_secs(1);
/// Names the purpose of the bytes that bind the proof of the token to the encrypted connection.
const BINDING: &[u8] = b"EXPORTER-lm-eval-worker";

/// One half of a connection, or both during the handshake. Two halves may be used by two threads.
pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Arc<Mutex<Connection>>>,
    /// Encrypted bytes, as they are read or written.
    records: Vec<u8>,
    /// Decrypted bytes, and how many of them have been read.
    plain: Vec<u8>,
    position: usize,
}

fn locked(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// Opens a connection; with TLS, after its handshake.
    pub(super) fn open(mut socket: TcpStream, tls: Option<Connection>) -> Result<Self, HandshakeError> {
        let mut tls = tls;
        if let Some(connection) = &mut tls {
            while connection.wants_write() {
                connection.write_tls(&mut socket)?;
            }
            // Without TLS, both sides begin with the greeting.
            let mut first = [0; 1];
            let count = socket.peek(&mut first).map_err(HandshakeError::from_read)?;
            let is_plain = count == 1 && first[0] == GREETING[0];
            match connection.complete_io(&mut socket) {
                Err(_) if is_plain => return Err(HandshakeError::Plain),
                Err(error) => {
                    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                    let known = inner.map(tls::failure);
                    return Err(known.unwrap_or_else(|| HandshakeError::from_read(error)));
                }
                // The time is over.
                Ok(_) if connection.is_handshaking() => return Err(HandshakeError::Silent),
                Ok(_) => {}
            }
        }
        let tls = tls.map(|connection| Arc::new(Mutex::new(connection)));
        Ok(Self { socket, tls, records: Vec::new(), plain: Vec::new(), position: 0 })
    }

    /// The other half.
    pub(super) fn half(&self) -> io::Result<Self> {
        let (socket, tls) = (self.socket.try_clone()?, self.tls.clone());
        Ok(Self { socket, tls, records: Vec::new(), plain: Vec::new(), position: 0 })
    }

    /// Bytes that only the two ends of this encrypted connection know; none without TLS. A proof over them is worthless
    /// to somebody between the two ends.
    pub(super) fn binding(&self) -> io::Result<Vec<u8>> {
        let Some(tls) = &self.tls else { return Ok(Vec::new()) };
        let bytes = locked(tls).export_keying_material(vec![0; 32], BINDING, None);
        bytes.map_err(io::Error::other)
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Closes a connection that is refused, but not before the other side has read everything: with unread bytes here, it
    /// would see a reset instead.
    pub(super) fn linger(mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
        let _ = self.socket.set_read_timeout(Some(LINGER));
        let mut bytes = [0; 1024];
        for _ in 0..64 {
            if !matches!(self.socket.read(&mut bytes), Ok(1..)) {
                return;
            }
        }
    }

    /// Decrypts bytes, and appends the result to `plain`.
    fn decrypt(plain: &mut Vec<u8>, connection: &mut Connection, mut records: &[u8]) -> io::Result<()> {
        loop {
            let state = connection
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            connection.reader().read_exact(&mut plain[start..])?;
            if records.is_empty() {
                return Ok(());
            }
            if connection.read_tls(&mut records)? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.socket.read(buffer) };
        if self.position == self.plain.len() {
            self.plain.clear();
            self.position = 0;
            // The handshake may have read more than its own messages.
            Self::decrypt(&mut self.plain, &mut locked(tls), &[])?;
        }
        while self.plain.is_empty() {
            self.records.resize(RECORDS, 0);
            // Without the lock, so that the other half can write meanwhile.
            let count = self.socket.read(&mut self.records)?;
            if count == 0 {
                return Ok(0);
            }
            Self::decrypt(&mut self.plain, &mut locked(tls), &self.records[..count])?;
        }
        let rest = &self.plain[self.position..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.socket.write(bytes) };
        self.records.clear();
        let count = {
            let mut connection = locked(tls);
            let count = connection.writer().write(bytes)?;
            while connection.wants_write() {
                connection.write_tls(&mut self.records)?;
            }
            count
        };
        // Without the lock: if both sides send much at once, each must be able to receive.
        self.socket.write_all(&self.records)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
