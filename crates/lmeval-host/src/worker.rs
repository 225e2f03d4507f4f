//! One worker process.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use lmeval_pycompat::Value;
use lmeval_pycompat::json::Decoder;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::embed::{BOOT, MODULES};
use crate::error::WorkerError;
use crate::log::Printed;
use crate::options::PythonOptions;
use crate::protocol::{self, ProtocolError, VERSION};

/// How long a worker may take from its start to its first message.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How long a worker that was told to end may take to do so.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The status with which a Python that is too old ends.
const TOO_OLD: i32 = 86;

/// The variables that a worker gets unless the user has set them.
const ENVIRONMENT: [(&str, &str); 3] = [
    // The order of sets must not differ between workers.
    ("PYTHONHASHSEED", "0"),
    ("PYTHONIOENCODING", "utf-8:backslashreplace"),
    ("HF_DATASETS_DISABLE_PROGRESS_BARS", "1"),
];

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    engine_end: BufReader<UnixStream>,
    printed: Printed,
    decoder: Decoder,
    time_limit: Duration,
    is_broken: bool,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    pub(crate) fn start(options: &PythonOptions) -> Result<Self, WorkerError> {
        let candidates = options.candidates();
        let mut failure = None;
        for python in &candidates {
            match Self::spawn(python, options) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    failure.get_or_insert((python, error));
                }
                Err(source) => {
                    return Err(WorkerError::Start { python: python.display().to_string(), source });
                }
                Ok(mut worker) => {
                    return match worker.greet(options) {
                        Err(WorkerError::Died { said, .. }) if worker.exit_code() == Some(TOO_OLD) => {
                            Err(WorkerError::TooOld { python: python.display().to_string(), said })
                        }
                        Err(error) => Err(error),
                        Ok(()) => Ok(worker),
                    };
                }
            }
        }
        let (python, source) = failure.map_or_else(
            || ("python3".to_owned(), io::Error::from(io::ErrorKind::NotFound)),
            |(python, error)| (python.display().to_string(), error),
        );
        Err(WorkerError::Start { python, source })
    }

    fn spawn(python: &Path, options: &PythonOptions) -> io::Result<Self> {
        let (engine_end, worker_end) = UnixStream::pair()?;
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(python);
        command.args(["-u", "-c", BOOT]);
        command.stdin(OwnedFd::from(worker_end)).stdout(writer.try_clone()?).stderr(writer);
        // A group of its own: an interrupt at the terminal is the engine's to handle, and what functions start can be
        // ended with the worker.
        command.process_group(0);
        for (name, value) in ENVIRONMENT {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let child = command.spawn()?;
        drop(command);
        Ok(Self {
            child,
            engine_end: BufReader::with_capacity(1 << 16, engine_end),
            printed: Printed::read(reader, options.log.clone()),
            decoder: Decoder::new(),
            time_limit: options.time_limit,
            is_broken: false,
        })
    }

    fn greet(&mut self, options: &PythonOptions) -> Result<(), WorkerError> {
        let modules = MODULES.iter().map(|(path, source)| (*path, Value::str(*source)));
        let roots = options.task_roots.iter().map(|root| Value::str(root.to_string_lossy()));
        let settings = Value::dict([
            ("protocol", Value::Int(VERSION)),
            ("modules", Value::dict(modules)),
            ("task_roots", Value::list(roots)),
            ("memory_limit", options.memory_limit.and_then(|limit| i64::try_from(limit).ok()).into()),
        ]);
        let mut text = String::new();
        protocol::encode(&mut text, &settings)?;
        self.send(&text)?;
        let hello = self.receive(START_LIMIT)?;
        if hello.as_dict().and_then(|hello| hello.get_str("protocol")) == Some(&Value::Int(VERSION)) {
            return Ok(());
        }
        self.is_broken = true;
        Err(ProtocolError::Malformed("it speaks another version of the protocol".to_owned()).into())
    }

    /// Whether the worker can be used no more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Sends a message and waits for its answers; an error comes with the number of answers before it.
    pub(crate) fn ask(&mut self, message: &str, answers: usize) -> Result<Vec<Value>, (usize, WorkerError)> {
        self.send(message).map_err(|error| (0, error))?;
        let mut values = Vec::with_capacity(answers);
        while values.len() < answers {
            match self.answer() {
                Ok(value) => values.push(value),
                Err(error) => {
                    self.is_broken |= !error.is_survived();
                    return Err((values.len(), error));
                }
            }
        }
        Ok(values)
    }

    fn answer(&mut self) -> Result<Value, WorkerError> {
        let Value::Dict(answer) = self.receive(self.time_limit)? else {
            return Err(ProtocolError::Malformed("an answer that is no dictionary".to_owned()).into());
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
            .set_write_timeout(Some(self.time_limit.max(Duration::from_millis(1))))
            .and_then(|()| protocol::write_frame(stream, message));
        sent.map_err(|error| self.lost(error, self.time_limit))
    }

    fn receive(&mut self, limit: Duration) -> Result<Value, WorkerError> {
        // A limit of nothing would be none at all.
        let timeout = Some(limit.max(Duration::from_millis(1)));
        if let Err(error) = self.engine_end.get_ref().set_read_timeout(timeout) {
            return Err(self.lost(error, limit));
        }
        match protocol::read_frame(&mut self.engine_end) {
            Ok(text) => Ok(protocol::decode(&mut self.decoder, &text)?),
            Err(ProtocolError::Io(error)) => Err(self.lost(error, limit)),
            Err(other) => Err(other.into()),
        }
    }

    /// What became of a worker whose pipe failed.
    fn lost(&mut self, error: io::Error, limit: Duration) -> WorkerError {
        self.is_broken = true;
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.end(Duration::ZERO);
                WorkerError::TimedOut { limit }
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                let status = self.end(END_LIMIT);
                let how = status.map_or_else(|| "ended".to_owned(), described);
                WorkerError::Died { how, said: self.printed.last_words() }
            }
            _ => ProtocolError::Io(error).into(),
        }
    }

    /// Tells the worker that nothing more will come.
    pub(crate) fn close(&self) {
        // A worker that is gone needs not be told.
        let _ = self.engine_end.get_ref().shutdown(Shutdown::Both);
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten().and_then(|status| status.code())
    }

    /// Ends the worker, and all that it has started, unless it ends by itself in time.
    fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        self.close();
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let deadline = Instant::now() + limit;
            // The process must stay waited for until its group has been ended: its number could be given to another.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            while Instant::now() < deadline && matches!(waitid(WaitId::Pid(process), options), Ok(None)) {
                std::thread::sleep(Duration::from_millis(2));
            }
            // An empty group is as good as one that was ended.
            let _ = kill_process_group(process, Signal::KILL);
        }
        self.child.wait().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let limit = if self.is_broken { Duration::ZERO } else { END_LIMIT };
        self.end(limit);
    }
}

/// How a process ended.
fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(9)) => "was killed (signal 9), perhaps for lack of memory".to_owned(),
        (None, Some(11)) => "crashed (signal 11, segmentation fault)".to_owned(),
        (None, Some(signal)) => format!("crashed (signal {signal})"),
        (None, None) => "ended".to_owned(),
    }
}
