//! The Python program that called the engine, on the other end of a socket.
//!
//! It has sent what is to be done and now waits for calls, as a worker does: of functions, tasks and models that exist
//! in its process alone.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Function, Value};

use crate::error::WorkerError;
use crate::protocol::{self, ProtocolError, VERSION};
use crate::services::Served;
use crate::socket::{self, Socket};

/// The start of references to objects of the caller.
const LIVE: &str = "live:";

/// The start of references to what was registered by name.
const REGISTERED: &str = "registry:";

/// The Python program that called the engine.
#[derive(Debug)]
pub struct Caller {
    stream: Socket,
    /// Held while a frame is written; messages of any thread may come between those of the conversation.
    writing: Mutex<()>,
    conversation: Mutex<Conversation>,
    /// The thread that answers a question of the caller, and has the conversation until it has done so.
    answering: Mutex<Option<ThreadId>>,
    /// What the caller has registered, as `kind/name`.
    registered: Mutex<HashSet<String>>,
}

#[derive(Debug)]
struct Conversation {
    frames: Receiver<String>,
    decoder: Decoder,
    /// Whether an answer may be left over that a later message would take for its own.
    is_broken: bool,
}

impl Caller {
    /// The program on the other end of standard input; `gone` is called when it has ended.
    pub fn on_stdin(gone: impl FnOnce() + Send + 'static) -> io::Result<Arc<Self>> {
        Self::new(socket::stdin()?, gone)
    }

    /// The program on the other end of a socket; `gone` is called when it has ended.
    pub fn new(stream: Socket, gone: impl FnOnce() + Send + 'static) -> io::Result<Arc<Self>> {
        let (sender, frames) = mpsc::channel();
        let mut reader = io::BufReader::with_capacity(1 << 16, stream.try_clone()?);
        thread::Builder::new().name("caller".to_owned()).spawn(move || {
            while let Ok(frame) = protocol::read_frame(&mut reader) {
                if sender.send(frame).is_err() {
                    return;
                }
            }
            drop(sender);
            gone();
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

    /// What the caller wants done; `None` when it has ended or says what nobody understands.
    pub fn request(&self) -> Option<Arc<Dict>> {
        let mut conversation = lock(&self.conversation);
        match conversation.receive() {
            Ok(Value::Dict(request)) if request.get_str("protocol") == Some(&Value::Int(VERSION)) => {
                Some(request)
            }
            _ => None,
        }
    }

    /// Tells the caller what came of it: under `result`, or under `failure`.
    pub fn tell(&self, name: &str, value: &Value) -> io::Result<()> {
        let mut text = format!("{{\"{name}\":");
        protocol::encode(&mut text, value).map_err(io::Error::other)?;
        text.push('}');
        let _conversation = lock(&self.conversation);
        self.write(&text)
    }

    /// Hands a message for a person to the caller, which reads it before its next answer.
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

    /// Tells the caller something and waits for what it wants next.
    pub fn turn(&self, said: &Value) -> io::Result<Value> {
        let mut message = String::from("{\"op\":\"turn\",\"said\":");
        protocol::encode(&mut message, said).map_err(io::Error::other)?;
        message.push('}');
        let mut wanted = Value::None;
        let mut take = |value: Value| {
            wanted = value;
            true
        };
        self.converse(&message, &mut take).map_err(io::Error::other)?;
        Ok(wanted)
    }

    /// Takes note of what the caller has registered, each as `kind/name`.
    pub fn add_registered(&self, names: impl IntoIterator<Item = String>) {
        lock(&self.registered).extend(names);
    }

    /// Whether the caller has registered anything.
    pub(crate) fn has_any_registered(&self) -> bool {
        !lock(&self.registered).is_empty()
    }

    /// Whether the caller has registered something of this kind under this name.
    pub fn has_registered(&self, kind: &str, name: &str) -> bool {
        lock(&self.registered).contains(&format!("{kind}/{name}"))
    }

    /// Whether only the caller can follow the reference.
    pub(crate) fn has(&self, function: &Function) -> bool {
        let reference = function.reference.as_str();
        if let Some(registered) = reference.strip_prefix(REGISTERED) {
            // `kind/name`, or `kind@part/name` for a part of it; what a task's folder registers has a folder.
            let (kind, name) = registered.split_once('/').unwrap_or_default();
            let kind = kind.split('@').next().unwrap_or_default();
            return function.directory.is_empty() && self.has_registered(kind, name);
        }
        // An object of a class has the reference of the class at its end.
        reference.starts_with(LIVE) || (reference.starts_with("class:") && reference.contains(":live:"))
    }

    /// Sends a message and waits for its answers; an error comes with the number of answers before it. One message at
    /// a time is under way. What the caller asks in between, `serve` answers, without a message of its own to the caller.
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
        match self.exchange(message, &mut take, serve) {
            Ok(()) => Ok(values),
            Err(error) => Err((values.len(), error)),
        }
    }

    /// Sends a message; each answer goes to `take`, until that says that it was the last.
    pub(crate) fn converse(
        &self,
        message: &str,
        take: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), WorkerError> {
        self.exchange(message, take, &|_| Err("a model can ask nothing".to_owned()))
    }

    fn exchange(
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
                how: "that called has given an answer that nobody understands".to_owned(),
                said: String::new(),
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

/// The error of a message that is sent while the caller waits for the answer to a question of its own.
fn busy() -> WorkerError {
    WorkerError::Raised {
        kind: "RuntimeError".to_owned(),
        message: "the Python program that called waits for an answer, so it can be asked nothing".to_owned(),
        traceback: None,
        missing: None,
    }
}

fn gone() -> WorkerError {
    WorkerError::Died { how: "that called has ended".to_owned(), said: String::new() }
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
    fn asks_and_is_answered() {
        let (caller, answering) = pair(&[
            "{\"protocol\":1,\"op\":\"tasks\"}",
            "{\"ask\":{\"kind\":\"q\"}}",
            "{\"ok\":{\"$\":\"t\",\"v\":[1]}}",
            "{\"error\":{\"type\":\"ValueError\",\"message\":\"no\"}}",
        ]);
        assert_eq!(caller.request().unwrap().get_str("op"), Some(&Value::str("tasks")));
        let serve = |_: &Dict| Ok("7".to_owned());
        assert_eq!(caller.ask("{\"op\":\"call\"}", 1, &serve).unwrap(), [Value::tuple([Value::Int(1)])]);
        let (place, error) = caller.ask("{}", 2, &serve).unwrap_err();
        assert_eq!((place, error.to_string()), (0, "ValueError: no".to_owned()));
        assert_eq!(answering.join().unwrap(), ["{\"op\":\"call\"}", "{\"ok\":7}", "{}"]);
        assert!(matches!(caller.ask("{}", 1, &serve), Err((0, WorkerError::Died { .. }))));
    }

    #[test]
    fn takes_turns() {
        let (caller, answering) = pair(&["{\"ok\":3}", "{\"ok\":null}"]);
        assert_eq!(caller.turn(&Value::tuple([Value::Int(1)])).unwrap(), Value::Int(3));
        assert_eq!(caller.turn(&Value::None).unwrap(), Value::None);
        let heard = answering.join().unwrap();
        assert_eq!(heard[0], "{\"op\":\"turn\",\"said\":{\"$\":\"t\",\"v\":[1]}}");
        assert!(caller.turn(&Value::None).is_err());
    }

    #[test]
    fn messages_for_a_person_come_between() {
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
        // The conversation waits for an answer meanwhile.
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
    fn a_message_within_a_question_is_an_error() {
        let (caller, answering) = pair(&["{\"ask\":{\"kind\":\"q\"}}", "{\"ok\":1}", "{\"ok\":2}"]);
        let serve = |_: &Dict| match caller.converse("{\"op\":\"model_prompt\"}", &mut |_| true) {
            Ok(()) => Ok("0".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(caller.ask("{}", 1, &serve).unwrap(), [Value::Int(1)]);
        caller.converse("{}", &mut |answer| answer == Value::Int(2)).unwrap();
        let heard = answering.join().unwrap();
        assert!(heard.len() == 3 && heard[1].contains("so it can be asked nothing"), "{heard:?}");
    }

    #[test]
    fn is_asked_nothing_more_after_nonsense() {
        let (caller, answering) = pair(&["{\"error\":{\"type\":\"E\"}}", "[1]"]);
        let serve = |_: &Dict| Ok(String::new());
        assert!(matches!(caller.ask("{}", 2, &serve), Err((0, WorkerError::Raised { .. }))));
        assert!(matches!(caller.ask("{}", 2, &serve), Err((0, WorkerError::Protocol(_)))));
        let error = caller.ask("{}", 1, &serve).unwrap_err().1.to_string();
        assert_eq!(error, "Python that called has given an answer that nobody understands");
        assert_eq!(answering.join().unwrap(), ["{}", "{}"]);
    }

    #[test]
    fn knows_what_is_the_callers() {
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
