//! The run's side: workers that join over the network, and the model they form.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_core::work_queue::{Item, Queue, Taken};
use lmeval_core::{Level, ModelError, ModelErrorKind, ModelStats};
use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};
use tracing::debug;

use super::channel::{Sender, Side, Token, handshake};
use super::link::{Link, deliver, difference, reason};
use super::tls::RunTls;
use super::wire::{Description, FromWorker, ToWorker, requests_message};

/// How often both sides say that they are still there, unless a side is given up soon after.
const PING: Duration = Duration::from_secs(2);
/// How often a thread that waits for answers looks whether the run has ended.
const TICK: Duration = Duration::from_millis(200);
/// How often the run looks for new connections.
const POLL: Duration = Duration::from_millis(20);
/// A request fails after this many workers left with it.
const DEATHS: usize = 10;
/// The number of refused connections that are reported.
const REPORTED: usize = 20;
/// The number of connections that have not proven the token and are kept. More than that are strangers, most likely.
const STRANGERS: usize = 128;
/// How often a run without workers says so.
const REMIND: Duration = Duration::from_mins(1);
/// The stack of a thread that attends to a worker: address space, of which little is used, unless a message is nested as deeply
/// as the decoder allows.
const STACK: usize = 2 << 20;

/// How often both sides send a heartbeat, if one that says nothing for `stall` is given up.
pub(super) fn heartbeat(stall: Duration) -> Duration {
    PING.min(stall / 4)
}

/// The options of a pool of workers.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The address to listen on, such as `0.0.0.0:7000`.
    pub listen: String,
    /// The secret that workers must know.
    pub token: Token,
    /// The certificate of the run, if connections are encrypted.
    pub tls: Option<RunTls>,
    /// A worker that says nothing for this long is given up, and so is the run by its workers.
    pub stall: Duration,
    /// The release of lm-eval, which workers must have, too.
    pub version: String,
    /// The settings of the model, from which workers create it.
    pub setup: Dict,
}

/// Receives notes about workers that join and leave.
pub type WorkerNotes = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// The state shared by the threads that attend to workers.
pub(super) struct PoolState {
    options: PoolOptions,
    note: WorkerNotes,
    queue: Queue,
    stats: ModelStats,
    is_stopping: AtomicBool,
    members: Mutex<Members>,
    /// Signals that a worker has joined or left.
    change: Condvar,
    /// Answers to questions about the chat template, by number.
    questions: Mutex<HashMap<i64, mpsc::Sender<Result<Value, ModelError>>>>,
    next_question: AtomicI64,
    refused: AtomicUsize,
    strangers: Mutex<Strangers>,
}

/// Connections that have not proven the token, oldest first. Each costs a thread and two descriptors, so there is a
/// limit: whoever can reach the port must not keep workers out.
#[derive(Default)]
struct Strangers {
    list: VecDeque<(u64, IpAddr, TcpStream)>,
    next: u64,
}

impl Strangers {
    /// Adds a connection and returns its id. If there are too many, the oldest one of the address that has most of them is
    /// closed: that of a worker only if its own address floods the run.
    fn add(&mut self, stream: TcpStream, address: IpAddr) -> u64 {
        self.next += 1;
        self.list.push_back((self.next, address, stream));
        if self.list.len() > STRANGERS {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            for (_, address, _) in &self.list {
                *counts.entry(*address).or_default() += 1;
            }
            let most = counts.values().copied().max().unwrap_or_default();
            let oldest = self.list.iter().position(|(_, address, _)| counts.get(address) == Some(&most));
            if let Some((_, _, stream)) = oldest.and_then(|index| self.list.remove(index)) {
                // Its thread notices. It may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.next
    }

    fn remove(&mut self, number: u64) {
        self.list.retain(|(known, _, _)| *known != number);
    }
}

#[derive(Default)]
struct Members {
    list: Vec<Member>,
    next: u64,
    /// That of the first worker, which all others must match.
    description: Option<Description>,
    /// The error of a worker that could not load the model while there was no other.
    failure: Option<ModelError>,
}

/// Why a worker is not admitted.
enum Denial {
    /// The connection was lost; the worker may try again.
    Lost(io::Error),
    /// It must not try again.
    Refused(String),
}

impl From<io::Error> for Denial {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// A worker that takes requests.
struct Member {
    id: u64,
    sender: Arc<Mutex<Sender>>,
}

impl std::fmt::Debug for PoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("listen", &self.options.listen).finish_non_exhaustive()
    }
}

impl PoolState {
    /// A pool without workers.
    pub(super) fn new(options: PoolOptions, note: WorkerNotes) -> Self {
        Self {
            options,
            note,
            queue: Queue::default(),
            stats: ModelStats::default(),
            is_stopping: AtomicBool::new(false),
            members: Mutex::default(),
            change: Condvar::new(),
            questions: Mutex::default(),
            next_question: AtomicI64::new(1),
            refused: AtomicUsize::new(0),
            strangers: Mutex::default(),
        }
    }

    pub(super) fn stats(&self) -> &ModelStats {
        &self.stats
    }

    /// The requests for any worker.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Takes no more requests; those in flight are still answered.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.queue.close(&ModelError::new(ModelErrorKind::Unreachable, "The run was stopped"));
    }

    /// Waits a moment until all workers have heard that the run is over, and closes their connections.
    pub(super) fn dismiss(&self) {
        let end = Instant::now() + PING;
        let mut members = self.members();
        while !members.list.is_empty() && Instant::now() < end {
            members = self.change.wait_timeout(members, POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        for member in &members.list {
            member.sender.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Waits for the first worker.
    pub(super) fn first_description(&self) -> Result<Description, ModelError> {
        let mut members = self.members();
        let mut reminded = Instant::now();
        loop {
            if let Some(description) = &members.description {
                return Ok(description.clone());
            }
            if let Some(error) = members.failure.take() {
                return Err(error);
            }
            if reminded.elapsed() >= REMIND {
                reminded = Instant::now();
                (self.note)(Level::Info, "Still waiting for the first worker");
            }
            members = self.change.wait_timeout(members, PING).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Accepts connections until the run ends. Reminds of a run without workers.
    pub(super) fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let mut without = Instant::now();
        while !self.is_stopping() {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let shared = Arc::clone(self);
                    // Without a thread, the connection is closed and the worker tries again.
                    let _ =
                        thread::Builder::new().stack_size(STACK).spawn(move || shared.attend(stream, peer));
                }
                Err(_) => thread::sleep(POLL),
            }
            let members = self.members();
            if !members.list.is_empty() || members.description.is_none() {
                without = Instant::now();
            } else if without.elapsed() >= REMIND {
                without = Instant::now();
                (self.note)(Level::Warning, "No worker is connected; the run waits for one");
            }
        }
    }

    /// Admits a worker and feeds it until it leaves.
    fn attend(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let refuse = |reason: &dyn std::fmt::Display| {
            if self.refused.fetch_add(1, Ordering::Relaxed) < REPORTED && !self.is_stopping() {
                (self.note)(Level::Warning, &format!("A connection from {peer} was refused: {reason}"));
            }
        };
        // Accepted sockets may inherit the mode of the listener.
        if let Err(error) = stream.set_nonblocking(false) {
            return refuse(&error);
        }
        let known = match stream.try_clone() {
            Ok(copy) => self.strangers().add(copy, peer.ip()),
            Err(error) => return refuse(&error),
        };
        let made = self.options.tls.as_ref().map(RunTls::connection).transpose();
        let made = made.and_then(|tls| handshake(stream, &self.options.token, Side::Run, tls));
        self.strangers().remove(known);
        let (sender, receiver) = match made {
            Ok(made) => made,
            Err(error) => return refuse(&error),
        };
        let mut link = Link { sender: Arc::new(Mutex::new(sender)), receiver, decoder: Decoder::new() };
        match self.admit(&mut link) {
            Ok((name, description)) => self.employ(link, &format!("{name} at {peer}"), &description),
            // It may try again.
            Err(Denial::Lost(error)) => refuse(&format_args!("the connection failed: {error}")),
            Err(Denial::Refused(reason)) => {
                refuse(&reason);
                // It may be gone.
                let _ = link.send(&ToWorker::Refused(reason));
            }
        }
    }

    /// Checks the version of a worker and lets it load the model.
    fn admit(&self, link: &mut Link) -> Result<(String, Box<Description>), Denial> {
        let unexpected = || Denial::Refused("it sent an unexpected message".to_owned());
        link.receiver.set_limit(self.options.stall)?;
        link.locked().set_limit(self.options.stall)?;
        let Some(FromWorker::Hello { version, name }) = link.receive()? else { return Err(unexpected()) };
        if version != self.options.version {
            let reason = format!("it is lm-eval {version}, and the run is {}", self.options.version);
            return Err(Denial::Refused(reason));
        }
        let setup = ToWorker::Setup { settings: self.options.setup.clone(), stall: self.options.stall };
        link.send(&setup)?;
        loop {
            match link.receive()? {
                Some(FromWorker::Alive) => {}
                Some(FromWorker::Ready(description)) => return Ok((name, description)),
                Some(FromWorker::Failed(error)) => {
                    let mut members = self.members();
                    if members.description.is_none() {
                        members.failure = Some(error.clone());
                        self.change.notify_all();
                    }
                    return Err(Denial::Refused(format!("it cannot load the model: {error}")));
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// Makes an admitted worker a member, if it has the model of the others, and feeds it.
    fn employ(self: &Arc<Self>, link: Link, name: &str, description: &Description) {
        let known = self.members().description.get_or_insert(description.clone()).identity.clone();
        if known != description.identity {
            let difference = difference(&known, &description.identity);
            (self.note)(
                Level::Warning,
                &format!("The worker {name} was refused: it has another model: {difference}"),
            );
            let reason = format!("it has another model than the other workers: {difference}");
            // It may be gone.
            let _ = link.send(&ToWorker::Refused(reason));
            return;
        }
        if link.send(&ToWorker::Accepted).is_err() {
            return;
        }
        let id = {
            let mut members = self.members();
            let id = members.next;
            members.next += 1;
            members.list.push(Member { id, sender: Arc::clone(&link.sender) });
            self.change.notify_all();
            (self.note)(Level::Info, &format!("The worker {name} joined; workers: {}", members.list.len()));
            id
        };
        let sender = Arc::clone(&link.sender);
        let reason = self.feed(link);
        sender.lock().unwrap_or_else(PoisonError::into_inner).close();
        let mut members = self.members();
        members.list.retain(|member| member.id != id);
        self.change.notify_all();
        if !self.is_stopping() {
            let left = members.list.len();
            drop(members);
            self.stats.retry(format!("The worker {name} left: {reason}"));
            (self.note)(Level::Warning, &format!("The worker {name} left: {reason}; workers: {left}"));
        }
    }

    /// Feeds a worker until it leaves or the queue is closed; returns why it ended.
    fn feed(self: &Arc<Self>, link: Link) -> String {
        let Link { sender, mut receiver, mut decoder } = link;
        let (messages, inbox) = mpsc::channel();
        let shared = Arc::clone(self);
        let reading = thread::Builder::new().stack_size(STACK).spawn(move || {
            loop {
                match receiver.receive().map(|text| FromWorker::decode(&mut decoder, &text)) {
                    Ok(Some(FromWorker::Rendered { id, rendered })) => shared.answer_question(id, rendered),
                    Ok(Some(message)) => {
                        if messages.send(Ok(message)).is_err() {
                            return;
                        }
                    }
                    Ok(None) => return drop(messages.send(Err("it sent an invalid message".to_owned()))),
                    Err(error) => return drop(messages.send(Err(reason(&error, shared.options.stall)))),
                }
            }
        });
        if let Err(error) = reading {
            return format!("no thread for it: {error}");
        }
        let send = |text: &str| sender.lock().unwrap_or_else(PoisonError::into_inner).send(text);
        let mut last: Option<String> = None;
        let period = heartbeat(self.options.stall);
        loop {
            let workers = self.members().list.len();
            match self.queue.take_near(workers, last.as_deref(), Some(period)) {
                Taken::Closed => {
                    if let Ok(text) = ToWorker::End.encode() {
                        // It may be gone.
                        let _ = send(&text);
                    }
                    return "the run is over".to_owned();
                }
                Taken::Nothing => {
                    while let Ok(message) = inbox.try_recv() {
                        if let Err(reason) = message {
                            return reason;
                        }
                    }
                    let sent = ToWorker::Ping.encode().map_err(io::Error::other).and_then(|text| send(&text));
                    if let Err(error) = sent {
                        return reason(&error, self.options.stall);
                    }
                }
                Taken::Items(items) => {
                    debug!(requests = items.len(), workers, "Batch sent to a worker");
                    last = items.last().map(|item| item.json.clone());
                    if let Err((reason, left)) = self.work(items, &send, &inbox) {
                        self.put_back(left, &reason);
                        return reason;
                    }
                }
            }
        }
    }

    /// Sends requests to a worker and delivers its answers. Returns those without an answer if it leaves.
    fn work(
        &self,
        items: Vec<Item>,
        send: &dyn Fn(&str) -> io::Result<()>,
        inbox: &mpsc::Receiver<Result<FromWorker, String>>,
    ) -> Result<(), (String, Vec<Item>)> {
        let text = requests_message(items.iter().map(|item| item.json.as_str()));
        let mut open: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        let mut failure = send(&text).err().map(|error| reason(&error, self.options.stall));
        drop(text);
        let mut pinged = Instant::now();
        let mut has_ended = false;
        while failure.is_none() {
            if self.is_stopping() && !std::mem::replace(&mut has_ended, true) {
                // Answers that are still computed are saved.
                let sent = ToWorker::End.encode().map_err(io::Error::other).and_then(|text| send(&text));
                failure = sent.err().map(|error| reason(&error, self.options.stall));
                continue;
            }
            match inbox.recv_timeout(TICK.min(heartbeat(self.options.stall))) {
                Ok(Ok(FromWorker::Answers(answers))) => deliver(&mut open, answers),
                Ok(Ok(FromWorker::Done)) => break,
                Ok(Ok(FromWorker::Alive)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok(_)) => failure = Some("it sent an unexpected message".to_owned()),
                Ok(Err(reason)) => failure = Some(reason),
                Err(RecvTimeoutError::Disconnected) => failure = Some("the connection was closed".to_owned()),
            }
            if failure.is_none() && pinged.elapsed() >= heartbeat(self.options.stall) {
                pinged = Instant::now();
                let sent = ToWorker::Ping.encode().map_err(io::Error::other).and_then(|text| send(&text));
                failure = sent.err().map(|error| reason(&error, self.options.stall));
            }
        }
        if failure.is_some() {
            // Answers may have arrived before the worker left.
            while let Ok(Ok(message)) = inbox.recv_timeout(TICK) {
                if let FromWorker::Answers(answers) = message {
                    deliver(&mut open, answers);
                }
            }
        }
        let left: Vec<Item> = open.into_iter().flatten().collect();
        match failure {
            Some(reason) => Err((reason, left)),
            None if left.is_empty() => Ok(()),
            None => Err(("it did not answer all requests".to_owned(), left)),
        }
    }

    /// Returns the requests of a worker that left to the queue. One with which many workers left has failed.
    fn put_back(&self, left: Vec<Item>, reason: &str) {
        debug!(requests = left.len(), reason, "Batch of a worker that left");
        let mut again = Vec::new();
        for mut item in left {
            item.deaths += 1;
            if item.deaths < DEATHS && !self.is_stopping() {
                again.push(item);
            } else {
                let message =
                    format!("{DEATHS} workers left while answering this request, the last one: {reason}");
                item.answer(Err(ModelError::new(ModelErrorKind::Unreachable, message)));
            }
        }
        self.queue.put_back(again);
    }

    fn answer_question(&self, id: i64, answer: Result<Value, ModelError>) {
        let asked = self.questions.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(asked) = asked {
            // Nobody may wait any more.
            let _ = asked.send(answer);
        }
    }

    /// Asks any worker a question about the chat template; if it leaves meanwhile, another one.
    pub(super) fn ask(&self, question: impl Fn(i64) -> ToWorker) -> Result<Value, ModelError> {
        let stopped = || ModelError::new(ModelErrorKind::Unreachable, "The run was stopped");
        let mut members = self.members();
        loop {
            if self.is_stopping() {
                return Err(stopped());
            }
            let Some(sender) = members.list.first().map(|member| Arc::clone(&member.sender)) else {
                members = self.change.wait_timeout(members, PING).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            drop(members);
            let id = self.next_question.fetch_add(1, Ordering::Relaxed);
            let (answer, answered) = mpsc::channel();
            self.questions.lock().unwrap_or_else(PoisonError::into_inner).insert(id, answer);
            let wrong = |message: String| ModelError::new(ModelErrorKind::Request, message);
            let text = question(id).encode().map_err(wrong)?;
            let sent = sender.lock().unwrap_or_else(PoisonError::into_inner).send(&text);
            if sent.is_ok()
                && let Ok(answer) = answered.recv_timeout(self.options.stall)
            {
                return answer;
            }
            self.questions.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            thread::sleep(POLL);
            members = self.members();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn deeply_nested_messages_do_not_overflow_the_stack() {
        for (depth, inner) in [(100_000, ""), (900, r#"{"$":"tuple","v":[]}"#)] {
            let text = format!("{{\"answers\":{}{inner}{}}}", "[".repeat(depth), "]".repeat(depth));
            let decode = move || FromWorker::decode(&mut Decoder::new(), &text).is_none();
            let thread = thread::Builder::new().stack_size(STACK).spawn(decode).unwrap();
            assert!(thread.join().unwrap(), "{depth}");
        }
    }

    #[test]
    fn floods_close_their_own_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || {
            let other = TcpStream::connect(address).unwrap();
            (other, listener.accept().unwrap().0)
        };
        let (flood, worker) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut strangers = Strangers::default();
        let (mut first, stream) = connect();
        let number = strangers.add(stream, worker);
        let others: Vec<TcpStream> = (0..STRANGERS + 5)
            .map(|_| {
                let (other, stream) = connect();
                strangers.add(stream, flood);
                other
            })
            .collect();
        assert_eq!(strangers.list.len(), STRANGERS);
        let is_closed = |mut stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            matches!(stream.read(&mut [0]), Ok(0))
        };
        assert_eq!(others.iter().filter(|other| is_closed(other)).count(), 6);
        assert!(is_closed(&others[0]) && !is_closed(&others[6]));
        first.set_nonblocking(true).unwrap();
        assert_eq!(first.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        strangers.remove(number);
        assert_eq!(strangers.list.len(), STRANGERS - 1);
    }
}
