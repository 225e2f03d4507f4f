//! The process of a worker.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::log::WorkerOutput;
use crate::options::Log;
use crate::parent;

/// Environment variables of a worker, unless the user has set them.
const ENVIRONMENT: [(&str, &str); 3] = [
    // The iteration order of sets must not differ between workers.
    ("PYTHONHASHSEED", "0"),
    ("PYTHONIOENCODING", "utf-8:backslashreplace"),
    ("HF_DATASETS_DISABLE_PROGRESS_BARS", "1"),
];

/// A process started by the engine; killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    printed: WorkerOutput,
    signals: Signals,
}

impl Process {
    /// Runs a script with one end of a socket as its standard input. Its output goes to the log.
    pub(crate) fn spawn(
        python: &Path,
        script: &str,
        socket: UnixStream,
        environment: &[(&str, &str)],
        log: Option<Log>,
    ) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(python);
        command.args(["-u", "-c", script]);
        command.stdin(OwnedFd::from(socket)).stdout(writer.try_clone()?).stderr(writer);
        // A separate process group: the engine handles interrupts from the terminal, and child processes of
        // functions can be killed with the worker.
        command.process_group(0);
        for (name, value) in ENVIRONMENT.iter().chain(environment) {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let child = parent::spawn(command)?;
        let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let signals = Signals(Arc::new(Mutex::new(number)));
        Ok(Self { child, printed: WorkerOutput::read(reader, log), signals })
    }

    /// A handle for sending signals from other threads.
    pub(crate) fn signals(&self) -> Signals {
        self.signals.clone()
    }

    /// The exit code, if the process has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten().and_then(|status| status.code())
    }

    /// The last lines that it printed.
    pub(crate) fn last_output(&self) -> String {
        self.printed.last_output()
    }

    /// Waits for the process to end; after `limit`, kills it and its children.
    pub(crate) fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let Some(process) = self.signals.number() else { return self.child.wait().ok() };
        let deadline = Instant::now() + limit;
        // The process must not be reaped before its group is killed, because its id could be reused.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while Instant::now() < deadline && matches!(waitid(WaitId::Pid(process), options), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Fails if the group is empty.
        let _ = kill_process_group(process, Signal::KILL);
        self.signals.clear();
        self.child.wait().ok()
    }
}

/// Sends signals to a process until it has been reaped.
#[derive(Clone, Debug)]
pub(crate) struct Signals(Arc<Mutex<Option<Pid>>>);

impl Signals {
    fn number(&self) -> Option<Pid> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Makes Python raise `KeyboardInterrupt`.
    pub(crate) fn interrupt(&self) {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = *process {
            // Fails if the process is gone.
            let _ = kill_process(process, Signal::INT);
        }
    }

    /// Kills the process and its children.
    pub(crate) fn kill(&self) {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = *process {
            // Fails if the process is gone.
            let _ = kill_process_group(process, Signal::KILL);
        }
    }
}

/// Describes how a process ended.
pub(crate) fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(9)) => "was killed (signal 9), possibly out of memory".to_owned(),
        (None, Some(11)) => "crashed (signal 11, segmentation fault)".to_owned(),
        (None, Some(signal)) => format!("crashed (signal {signal})"),
        (None, None) => "ended".to_owned(),
    }
}
