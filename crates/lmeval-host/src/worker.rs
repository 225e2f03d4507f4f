//! One worker process.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use lmeval_pycompat::json::Decoder;
use lmeval_pycompat::{Dict, Value};

use crate::embed::{BOOT, BRIDGE, MODULES, ORIGINAL};
use crate::error::WorkerError;
use crate::options::PythonOptions;
use crate::process::{Process, Signals, described};
use crate::progress::Progress;
use crate::protocol::{self, ProtocolError, VERSION};
use crate::services::Served;
use crate::socket::{self, Socket};

/// How long a worker may take to start.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How long a worker may take to exit when its connection is closed.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The exit code of a Python that is too old.
const TOO_OLD: i32 = 86;

/// The purpose of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Functions of tasks, with a time limit per call.
    Functions,
    /// A model that uses the embedded package.
    Model,
    /// A model of the original package, the only `lm_eval` in that process.
    Original,
    /// Reports to experiment trackers: uploads take as long as they take.
    Tracking,
}

impl Purpose {
    fn script(self) -> &'static str {
        if self == Self::Original { ORIGINAL } else { BOOT }
    }

    /// The embedded modules it needs.
    fn modules(self) -> impl Iterator<Item = (&'static str, Value)> {
        let carried = move |path: &str| self != Self::Original || BRIDGE.contains(&path);
        MODULES
            .iter()
            .filter(move |(path, _)| carried(path))
            .map(|(path, source)| (*path, Value::str(*source)))
    }

    fn environment(self) -> &'static [(&'static str, &'static str)] {
        // The engine shows the progress of a model; Python's progress bars would fill the log.
        if self == Self::Functions { &[] } else { &[("TQDM_DISABLE", "1")] }
    }
}

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Process,
    engine_end: BufReader<Socket>,
    decoder: Decoder,
    /// The time limit of a call; `None` for no limit.
    time_limit: Option<Duration>,
    progress: Option<Progress>,
    is_broken: bool,
    has_timed_out: bool,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    pub(crate) fn start(options: &PythonOptions, purpose: Purpose) -> Result<Self, WorkerError> {
        let (python, mut worker) = options.start(|python| Self::spawn(python, options, purpose))?;
        match worker.handshake(options, purpose) {
            Err(WorkerError::Died { output, .. }) if worker.process.exit_code() == Some(TOO_OLD) => {
                Err(WorkerError::TooOld { python: python.display().to_string(), output })
            }
            Err(error) => Err(error),
            Ok(()) => Ok(worker),
        }
    }

    fn spawn(python: &Path, options: &PythonOptions, purpose: Purpose) -> io::Result<Self> {
        let (engine_end, worker_end) = socket::pair()?;
        let log = options.log.clone();
        Ok(Self {
            process: Process::spawn(python, purpose.script(), worker_end, purpose.environment(), log)?,
            engine_end: BufReader::with_capacity(1 << 16, engine_end),
            decoder: Decoder::new(),
            time_limit: (purpose == Purpose::Functions).then_some(options.time_limit),
            progress: (purpose == Purpose::Functions).then(Progress::new).flatten(),
            is_broken: false,
            has_timed_out: false,
        })
    }

    fn handshake(&mut self, options: &PythonOptions, purpose: Purpose) -> Result<(), WorkerError> {
        // Models have no memory limit.
        let memory_limit = options.memory_limit.filter(|_| purpose == Purpose::Functions);
        let roots = options.task_roots.iter().map(|root| Value::str(root.to_string_lossy()));
        let plugins = options.plugins.iter().map(|plugin| Value::str(plugin.as_str()));
        let settings = Value::dict([
            ("protocol", Value::Int(VERSION)),
            ("modules", Value::dict(purpose.modules())),
            ("task_roots", Value::list(roots)),
            ("plugins", Value::list(plugins)),
            (
                "program",
                options.program.as_ref().map(|program| program.to_string_lossy().into_owned()).into(),
            ),
            ("run_unsafe_code", Value::Bool(options.run_unsafe_code)),
            (
                "progress",
                self.progress.as_ref().map(|progress| progress.path().to_string_lossy().into_owned()).into(),
            ),
            ("memory_limit", memory_limit.and_then(|limit| i64::try_from(limit).ok()).into()),
        ]);
        let mut text = String::new();
        protocol::encode(&mut text, &settings)?;
        self.send(&text)?;
        let hello = self.receive(Some(START_LIMIT))?;
        if hello.as_dict().and_then(|hello| hello.get_str("protocol")) != Some(&Value::Int(VERSION)) {
            self.is_broken = true;
            let message = "it uses another protocol version".to_owned();
            return Err(ProtocolError::Malformed(message).into());
        }
        if let Some(progress) = &self.progress {
            progress.opened();
        }
        // Plug-ins may import large packages, so they get the time limit of a call.
        self.answer(&|_| Err("requests are not served yet".to_owned())).map(drop)
    }

    /// Whether the worker is no longer usable.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether a call has timed out.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.has_timed_out
    }

    /// Limits the time of calls from now on.
    pub(crate) fn set_time_limit(&mut self, limit: Duration) {
        self.time_limit = Some(limit);
    }

    /// A handle for sending signals from other threads.
    pub(crate) fn signals(&self) -> Signals {
        self.process.signals()
    }

    /// Sends a message and passes each answer to `take`, until `take` returns true. `serve` handles requests that the
    /// worker sends meanwhile.
    pub(crate) fn converse(
        &mut self,
        message: &str,
        take: &mut dyn FnMut(Value) -> bool,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<(), WorkerError> {
        self.send(message)?;
        loop {
            match self.answer(serve) {
                Ok(value) => {
                    if take(value) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.is_broken |= !error.leaves_worker_usable();
                    return Err(error);
                }
            }
        }
    }

    /// Sends a message and waits for its answers; an error comes with the number of answers before it. `serve`
    /// handles requests that the worker sends meanwhile.
    pub(crate) fn ask(
        &mut self,
        message: &str,
        answers: usize,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<Vec<Value>, (usize, WorkerError)> {
        self.send(message).map_err(|error| (0, error))?;
        let mut values = Vec::with_capacity(answers);
        while values.len() < answers {
            match self.answer(serve) {
                Ok(value) => values.push(value),
                Err(error) => {
                    self.is_broken |= !error.leaves_worker_usable();
                    let done = self.progress.as_ref().filter(|_| self.is_broken).map_or(0, Progress::done);
                    return Err((values.len().max(done.min(answers - 1)), error));
                }
            }
        }
        Ok(values)
    }

    fn answer(&mut self, serve: &dyn Fn(&Dict) -> Served) -> Result<Value, WorkerError> {
        let answer = loop {
            let Value::Dict(answer) = self.receive(self.time_limit)? else {
                return Err(ProtocolError::Malformed("an answer that is not a dictionary".to_owned()).into());
            };
            let Some(Value::Dict(question)) = answer.get_str("ask") else { break answer };
            let mut reply = String::from("{\"");
            match serve(question) {
                Ok(value) => reply.extend(["ok\":", &value]),
                Err(message) => {
                    reply.push_str("error\":");
                    protocol::encode(&mut reply, &Value::from(message))?;
                }
            }
            reply.push('}');
            self.send(&reply)?;
        };
        match (answer.get_str("ok"), answer.get_str("error")) {
            (Some(value), None) => Ok(value.clone()),
            (None, Some(Value::Dict(told))) => Err(WorkerError::raised(told)),
            _ => Err(ProtocolError::Malformed("an answer without `ok` or `error`".to_owned()).into()),
        }
    }

    fn send(&mut self, message: &str) -> Result<(), WorkerError> {
        let stream = self.engine_end.get_mut();
        let sent = stream
            .set_write_timeout(at_least(self.time_limit))
            .and_then(|()| protocol::write_frame(stream, message));
        sent.map_err(|error| self.diagnose(error, self.time_limit))
    }

    fn receive(&mut self, limit: Option<Duration>) -> Result<Value, WorkerError> {
        if let Err(error) = self.engine_end.get_ref().set_read_timeout(at_least(limit)) {
            return Err(self.diagnose(error, limit));
        }
        match protocol::read_frame(&mut self.engine_end) {
            Ok(text) => Ok(protocol::decode(&mut self.decoder, &text)?),
            Err(ProtocolError::Io(error)) => Err(self.diagnose(error, limit)),
            Err(other) => Err(other.into()),
        }
    }

    /// Diagnoses a worker whose connection failed.
    fn diagnose(&mut self, error: io::Error, limit: Option<Duration>) -> WorkerError {
        self.is_broken = true;
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.end(Duration::ZERO);
                self.has_timed_out = true;
                WorkerError::TimedOut { limit: limit.unwrap_or_default() }
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                let status = self.end(END_LIMIT);
                let how = status.map_or_else(|| "ended".to_owned(), described);
                WorkerError::Died { how, output: self.process.last_output() }
            }
            _ => ProtocolError::Io(error).into(),
        }
    }

    /// Closes the connection, which makes the worker exit.
    pub(crate) fn close(&self) {
        // Fails if the worker is gone.
        let _ = self.engine_end.get_ref().shutdown(Shutdown::Both);
    }

    /// Waits for the worker to exit; after `limit`, kills it and its children.
    fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.close();
        self.process.end(limit)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let limit = if self.is_broken { Duration::ZERO } else { END_LIMIT };
        self.end(limit);
    }
}

/// A timeout for sockets, which reject zero.
fn at_least(limit: Option<Duration>) -> Option<Duration> {
    limit.map(|limit| limit.max(Duration::from_millis(1)))
}
