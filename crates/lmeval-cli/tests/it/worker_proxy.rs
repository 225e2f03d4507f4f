//! A proxy between workers and a run: it can be cut, and it reads the messages that it forwards.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The bytes of each side before its first message: greeting, challenge and proof.
const HANDSHAKE: usize = 16 + 32 + 32;
/// The bytes of a message besides its content: length and tag.
const LENGTH: usize = 8;
const TAG: usize = 32;

/// The messages and bytes that have passed a proxy.
#[derive(Default)]
pub(crate) struct Passed {
    /// How often each document was sent to a worker.
    pub(crate) sent: BTreeMap<u64, usize>,
    /// Documents whose answer has passed.
    pub(crate) answered: BTreeSet<u64>,
    /// Documents that were sent although they had an answer.
    pub(crate) repeated: Vec<u64>,
    /// All messages.
    pub(crate) messages: Vec<Value>,
    /// All bytes.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Default)]
pub(crate) struct Proxy {
    pub(crate) address: String,
    /// How many milliseconds an answer takes, so that a test does not depend on the speed of the machine.
    pace: Arc<AtomicU64>,
    is_cut: Arc<AtomicBool>,
    passed: Arc<Mutex<Passed>>,
}

impl Proxy {
    /// Forwards connections to an address.
    pub(crate) fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = Self { address, ..Self::default() };
        let (target, own) = (target.to_owned(), proxy.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                own.wait_while_cut();
                let Ok(other) = TcpStream::connect(&target) else { continue };
                let (batch, is_open) = (Arc::default(), Arc::new(AtomicBool::new(true)));
                let ends = [(stream.try_clone().unwrap(), other.try_clone().unwrap()), (other, stream)];
                for (is_to_worker, (from, to)) in [false, true].into_iter().zip(ends) {
                    let (batch, is_open) = (Arc::clone(&batch), Arc::clone(&is_open));
                    let reader = Reader { proxy: own.clone(), is_to_worker, batch, is_open };
                    thread::spawn(move || reader.forward(from, to));
                }
            }
        });
        proxy
    }

    /// Delays each answer from now on, but no message by more than a second.
    pub(crate) fn set_pace(&self, milliseconds: u64) {
        self.pace.store(milliseconds, Ordering::Relaxed);
    }

    /// While cut, nothing arrives, but nothing is closed either.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    fn wait_while_cut(&self) {
        while self.is_cut.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Looks at what has passed.
    pub(crate) fn passed<T>(&self, look: impl FnOnce(&mut Passed) -> T) -> T {
        look(&mut self.passed.lock().unwrap())
    }
}

/// One direction of a connection.
struct Reader {
    proxy: Proxy,
    is_to_worker: bool,
    /// The documents of the worker's current batch.
    batch: Arc<Mutex<Vec<u64>>>,
    /// Whether the run still listens to this connection.
    is_open: Arc<AtomicBool>,
}

impl Reader {
    fn forward(self, mut from: TcpStream, mut to: TcpStream) {
        let (mut bytes, mut waiting, mut handshake) = ([0; 4096], Vec::new(), HANDSHAKE);
        let mut is_plain = None;
        'connected: while let Ok(count @ 1..) = from.read(&mut bytes) {
            self.proxy.wait_while_cut();
            self.proxy.passed(|passed| passed.bytes.extend(&bytes[..count]));
            waiting.extend(&bytes[..count]);
            // The greeting is not encrypted, or everything is.
            let is_plain = *is_plain.get_or_insert(waiting[0] == b'l');
            while !waiting.is_empty() {
                let length = if !is_plain {
                    waiting.len()
                } else if handshake > 0 {
                    handshake.min(waiting.len())
                } else if let Some(length) = message_length(&waiting) {
                    // Each message is forwarded when it has been read.
                    self.read(serde_json::from_slice(&waiting[LENGTH..length - TAG]).unwrap());
                    length
                } else {
                    break;
                };
                handshake -= length.min(handshake);
                if to.write_all(&waiting[..length]).is_err() {
                    break 'connected;
                }
                waiting.drain(..length);
            }
        }
        if self.is_to_worker {
            // The run has given up this connection, or was killed: later answers do not reach it.
            self.is_open.store(false, Ordering::Relaxed);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        } else {
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    fn read(&self, message: Value) {
        let answers = message["answers"].as_array().map_or(0, Vec::len) as u64;
        let pace = self.proxy.pace.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis((pace * answers).min(1000)));
        let mut batch = self.batch.lock().unwrap();
        self.proxy.passed(|passed| {
            if self.is_to_worker
                && let Some(requests) = message["requests"].as_array()
            {
                *batch = requests.iter().map(|request| request[4].as_u64().unwrap()).collect();
                for document in &*batch {
                    *passed.sent.entry(*document).or_default() += 1;
                    if passed.answered.contains(document) {
                        passed.repeated.push(*document);
                    }
                }
            }
            for answer in message["answers"].as_array().into_iter().flatten() {
                if answer[1].is_array() && self.is_open.load(Ordering::Relaxed) {
                    passed.answered.insert(batch[answer[0].as_u64().unwrap() as usize]);
                }
            }
            passed.messages.push(message);
        });
    }
}

/// The length of the first message with its length and tag, if it is complete.
fn message_length(waiting: &[u8]) -> Option<usize> {
    let content = u64::from_be_bytes(waiting.get(..LENGTH)?.try_into().unwrap());
    let length = LENGTH + usize::try_from(content).unwrap() + TAG;
    (waiting.len() >= length).then_some(length)
}
