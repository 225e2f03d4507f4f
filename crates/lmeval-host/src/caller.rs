//! The Python program that called the engine, over a socket.
//!
//! After its request, it serves calls like a worker: of functions, tasks and models that exist only in its
//! process.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Function, Value};

use crate::error::WorkerError;
use crate::protocol::{self, ProtocolError, VERSION};
use crate::services::{Served, without_run};
use crate::socket::{self, Socket};

/// The prefix of references to objects of the caller.
const LIVE: &str = "live:";

/// The prefix of references to registered names.
const REGISTERED: &str = "registry:";

/// The Python program that called the engine.
#[derive(Debug)]
pub struct Caller {
    stream: Socket,
    /// Held while writing a frame; log messages of any thread may be interleaved with the conversation.
    writing: Mutex<()>,
    conversation: Mutex<Conversation>,
    /// The thread that is serving a request of the caller; it owns the conversation until it has replied.
    answering: Mutex<Option<ThreadId>>,
    /// The names that the caller has registered, as `kind/name`.
    registered: Mutex<HashSet<String>>,
}

#[derive(Debug)]
struct Conversation {
    frames: Receiver<String>,
    decoder: Decoder,
    /// Whether a stale answer may be pending that a later message would receive.
    is_broken: bool,
}

impl Caller {
    /// Connects over standard input; `on_exit` is called when the caller exits.
    pub fn on_stdin(on_exit: impl FnOnce() + Send + 'static) -> io::Result<Arc<Self>> {
        Self::new(socket::stdin()?, on_exit)
    }

    /// Connects over a socket; `on_exit` is called when the caller exits.
    pub fn new(stream: Socket, on_exit: impl FnOnce() + Send + 'static) -> io::Result<Arc<Self>> {
        let (sender, frames) = mpsc::channel();
        let mut reader = io::BufReader::with_capacity(1 << 16, stream.try_clone()?);
        thread::Builder::new().name("caller".to_owned()).spawn(move || {
            while let Ok(frame) = protocol::read_frame(&mut reader) {
                if sender.send(frame).is_err() {
                    return;
                }
            }
            drop(sender);
            on_exit();
        })?;
        let conversation = Mutex::new(Conversation { frames, decoder: Decoder::new(), is_broken: false });
        Ok(Arc::new(Self {
            stream,
            writing: Mutex::default(),
            conversation,
            answering: Mutex::default(),
            registered: Mutex::default(),
        }))
    }

    /// The request of the caller; `None` if it has exited or sent something malformed.
    pub fn request(&self) -> Option<Arc<Dict>> {
        let mut conversation = lock(&self.conversation);
        match conversation.receive() {
            Ok(Value::Dict(request)) if request.get_str("protocol") == Some(&Value::Int(VERSION)) => {
                Some(request)
            }
            _ => None,
        }
    }

    /// Sends the outcome of the request, under `result` or `failure`.
    pub fn send_reply(&self, name: &str, value: &Value) -> io::Result<()> {
        let mut text = format!("{{\"{name}\":");
        protocol::encode(&mut text, value).map_err(io::Error::other)?;
        text.push('}');
        let _conversation = lock(&self.conversation);
        self.write(&text)
    }

    /// Sends a log message, which the caller reads before its next answer.
    pub fn log(&self, level: &str, text: &str) -> io::Result<()> {
        let told = Value::list([Value::str(level), Value::str(text)]);
        let mut frame = String::from("{\"log\":");
        protocol::encode(&mut frame, &told).map_err(io::Error::other)?;
        frame.push('}');
        self.write(&frame)
    }

    fn write(&self, frame: &str) -> io::Result<()> {
        let _writing = lock(&self.writing);
        protocol::write_frame(&mut &self.stream, frame)
    }

    /// Sends a value and waits for the caller's next request.
    pub fn turn(&self, said: &Value) -> io::Result<Value> {
        let mut message = String::from("{\"op\":\"turn\",\"said\":");
        protocol::encode(&mut message, said).map_err(io::Error::other)?;
        message.push('}');
        let mut wanted = Value::None;
        let mut take = |value: Value| {
            wanted = value;
            true
        };
        self.converse(&message, &mut take, &without_run).map_err(io::Error::other)?;
        Ok(wanted)
    }

    /// Adds names that the caller has registered, as `kind/name`.
    pub fn add_registered(&self, names: impl IntoIterator<Item = String>) {
        lock(&self.registered).extend(names);
    }

    /// Whether the caller has registered any name.
    pub(crate) fn has_any_registered(&self) -> bool {
        !lock(&self.registered).is_empty()
    }

    /// Whether the caller has registered this kind and name.
    pub fn has_registered(&self, kind: &str, name: &str) -> bool {
        lock(&self.registered).contains(&format!("{kind}/{name}"))
    }

    /// Whether only the caller can resolve the reference.
    pub(crate) fn has(&self, function: &Function) -> bool {
        let reference = function.reference.as_str();
        if let Some(registered) = reference.strip_prefix(REGISTERED) {
            // `kind/name`, or `kind@part/name` for a part of it; names registered by a task's folder come with
            // that folder.
            let (kind, name) = registered.split_once('/').unwrap_or_default();
            let kind = kind.split('@').next().unwrap_or_default();
            return function.directory.is_empty() && self.has_registered(kind, name);
        }
        // The reference of an instance ends with the reference of its class.
        reference.starts_with(LIVE) || (reference.starts_with("class:") && reference.contains(":live:"))
    }

    /// Sends a message and waits for its answers; an error comes with the number of answers before it. Only one
    /// message is in flight at a time. `serve` handles requests that the caller sends meanwhile; it must not send
    /// messages to the caller.
    pub(crate) fn ask(
        &self,
        message: &str,
        answers: usize,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<Vec<Value>, (usize, WorkerError)> {
        let mut values = Vec::with_capacity(answers);
        let mut take = |value| {
            values.push(value);
            values.len() == answers
        };
        match self.converse(message, &mut take, serve) {
            Ok(()) => Ok(values),
            Err(error) => Err((values.len(), error)),
        }
    }

    /// Sends a message and passes each answer to `take`, until `take` returns true. `serve` handles requests that the
    /// caller sends meanwhile.
    pub(crate) fn converse(
        &self,
        message: &str,
        take: &mut dyn FnMut(Value) -> bool,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<(), WorkerError> {
        if *lock(&self.answering) == Some(thread::current().id()) {
            return Err(busy());
        }
        let mut conversation = lock(&self.conversation);
        if conversation.is_broken {
            return Err(WorkerError::Died {
                how: "sent a malformed answer".to_owned(),
                output: String::new(),
            });
        }
        let mut exchange = || {
            self.write(message).map_err(|_| gone())?;
            while !take(self.answer(&mut conversation, serve)?) {}
            Ok(())
        };
        let exchanged = exchange();
        conversation.is_broken =
            matches!(&exchanged, Err(error) if !matches!(error, WorkerError::Raised { .. }));
        exchanged
    }

    fn answer(
        &self,
        conversation: &mut Conversation,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<Value, WorkerError> {
        loop {
            let answer = conversation.receive()?;
            let part = |name: &str| answer.as_dict().and_then(|answer| answer.get_str(name));
            if let Some(Value::Dict(question)) = part("ask") {
                let mut reply = String::from("{\"");
                *lock(&self.answering) = Some(thread::current().id());
                let served = serve(question);
                *lock(&self.answering) = None;
                match served {
                    Ok(value) => reply.extend(["ok\":", &value]),
                    Err(message) => {
                        reply.push_str("error\":");
                        protocol::encode(&mut reply, &Value::from(message))?;
                    }
                }
                reply.push('}');
                self.write(&reply).map_err(|_| gone())?;
                continue;
            }
            return match (part("ok"), part("error")) {
                (Some(value), None) => Ok(value.clone()),
                (None, Some(Value::Dict(told))) => Err(WorkerError::raised(told)),
                _ => Err(ProtocolError::Malformed("an answer without `ok` or `error`".to_owned()).into()),
            };
        }
    }
}

impl Conversation {
    fn receive(&mut self) -> Result<Value, WorkerError> {
        let frame = self.frames.recv().map_err(|_| gone())?;
        Ok(protocol::decode(&mut self.decoder, &frame)?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of sending a message while the caller waits for an answer.
fn busy() -> WorkerError {
    WorkerError::Raised {
        kind: "RuntimeError".to_owned(),
        message: "the calling Python program is waiting for an answer and cannot be called".to_owned(),
        traceback: None,
        missing: None,
    }
}

fn gone() -> WorkerError {
    WorkerError::Died { how: "has ended".to_owned(), output: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(answers: &'static [&'static str]) -> (Arc<Caller>, thread::JoinHandle<Vec<String>>) {
        let (engine, python) = socket::pair().unwrap();
        let answering = thread::spawn(move || {
            let mut reader = io::BufReader::new(python.try_clone().unwrap());
            let mut heard = Vec::new();
            for answer in answers {
                if !answer.starts_with("{\"protocol\"") {
                    heard.push(protocol::read_frame(&mut reader).unwrap());
                }
                protocol::write_frame(&mut &python, answer).unwrap();
            }
            heard
        });
        (Caller::new(engine, || ()).unwrap(), answering)
    }

    #[test]
    fn sends_messages_and_receives_answers() {
        let (caller, answering) = pair(&[
            "{\"protocol\":1,\"op\":\"tasks\"}",
            "{\"ask\":{\"kind\":\"q\"}}",
            "{\"ok\":{\"$\":\"t\",\"v\":[1]}}",
            "{\"error\":{\"type\":\"ValueError\",\"message\":\"no\"}}",
        ]);
        assert_eq!(caller.request().unwrap().get_str("op"), Some(&Value::str("tasks")));
        let serve = |_: &Dict| Ok("7".to_owned());
        assert_eq!(caller.ask("{\"op\":\"call\"}", 1, &serve).unwrap(), [Value::tuple([Value::Int(1)])]);
        let (index, error) = caller.ask("{}", 2, &serve).unwrap_err();
        assert_eq!((index, error.to_string()), (0, "ValueError: no".to_owned()));
        assert_eq!(answering.join().unwrap(), ["{\"op\":\"call\"}", "{\"ok\":7}", "{}"]);
        assert!(matches!(caller.ask("{}", 1, &serve), Err((0, WorkerError::Died { .. }))));
    }

    #[test]
    fn exchanges_turns() {
        let (caller, answering) = pair(&["{\"ok\":3}", "{\"ok\":null}"]);
        assert_eq!(caller.turn(&Value::tuple([Value::Int(1)])).unwrap(), Value::Int(3));
        assert_eq!(caller.turn(&Value::None).unwrap(), Value::None);
        let heard = answering.join().unwrap();
        assert_eq!(heard[0], "{\"op\":\"turn\",\"said\":{\"$\":\"t\",\"v\":[1]}}");
        assert!(caller.turn(&Value::None).is_err());
    }

    #[test]
    fn interleaves_log_messages() {
        let (engine, python) = socket::pair().unwrap();
        let caller = Caller::new(engine, || ()).unwrap();
        let (heard, is_asked) = mpsc::channel();
        let answering = thread::spawn(move || {
            let mut reader = io::BufReader::new(python.try_clone().unwrap());
            heard.send(protocol::read_frame(&mut reader).unwrap()).unwrap();
            let logged = protocol::read_frame(&mut reader).unwrap();
            protocol::write_frame(&mut &python, "{\"ok\":1}").unwrap();
            logged
        });
        let other = Arc::clone(&caller);
        // The conversation is waiting for an answer meanwhile.
        let logging = thread::spawn(move || {
            let asked = is_asked.recv().unwrap();
            other.log("WARNING", "a \"word\"").unwrap();
            asked
        });
        let serve = |_: &Dict| Ok(String::new());
        assert_eq!(caller.ask("{}", 1, &serve).unwrap(), [Value::Int(1)]);
        assert_eq!(logging.join().unwrap(), "{}");
        assert_eq!(answering.join().unwrap(), "{\"log\":[\"WARNING\",\"a \\\"word\\\"\"]}");
    }

    #[test]
    fn message_while_serving_is_an_error() {
        let (caller, answering) = pair(&["{\"ask\":{\"kind\":\"q\"}}", "{\"ok\":1}", "{\"ok\":2}"]);
        let serve = |_: &Dict| match caller.converse("{\"op\":\"model_prompt\"}", &mut |_| true, &without_run)
        {
            Ok(()) => Ok("0".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(caller.ask("{}", 1, &serve).unwrap(), [Value::Int(1)]);
        caller.converse("{}", &mut |answer| answer == Value::Int(2), &without_run).unwrap();
        let heard = answering.join().unwrap();
        assert!(
            heard.len() == 3 && heard[1].contains("waiting for an answer and cannot be called"),
            "{heard:?}"
        );
    }

    #[test]
    fn stops_after_malformed_answer() {
        let (caller, answering) = pair(&["{\"error\":{\"type\":\"E\"}}", "[1]"]);
        let serve = |_: &Dict| Ok(String::new());
        assert!(matches!(caller.ask("{}", 2, &serve), Err((0, WorkerError::Raised { .. }))));
        assert!(matches!(caller.ask("{}", 2, &serve), Err((0, WorkerError::Protocol(_)))));
        let error = caller.ask("{}", 1, &serve).unwrap_err().1.to_string();
        assert_eq!(error, "Python sent a malformed answer");
        assert_eq!(answering.join().unwrap(), ["{}", "{}"]);
    }

    #[test]
    fn recognises_references_of_the_caller() {
        let (caller, _) = pair(&[]);
        let function =
            |reference: &str| Function { directory: String::new(), reference: reference.to_owned() };
        assert!(caller.has(&function("live:3.f")) && !caller.has(&function("registry:metric/m")));
        assert!(
            caller.has(&function("class:0:live:3.T/doc_to_text"))
                && !caller.has(&function("class:0:utils.T"))
        );
        caller.add_registered(["metric/m".to_owned()]);
        assert!(
            caller.has(&function("registry:metric/m"))
                && caller.has(&function("registry:metric@aggregation/m"))
        );
        assert!(!caller.has(&function("registry:filter/m")) && !caller.has(&function("utils.f")));
    }
}
