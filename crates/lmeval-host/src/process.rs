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

use crate::log::Printed;
use crate::options::Log;
use crate::parent;

/// The variables that a worker gets unless the user has set them.
const ENVIRONMENT: [(&str, &str); 3] = [
    // The order of sets must not differ between workers.
    ("PYTHONHASHSEED", "0"),
    ("PYTHONIOENCODING", "utf-8:backslashreplace"),
    ("HF_DATASETS_DISABLE_PROGRESS_BARS", "1"),
];

/// A process that the engine has started; it ends with this.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    printed: Printed,
    signals: Signals,
}

impl Process {
    /// Runs a script with one end of a socket as its standard input. What it prints goes to the log.
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
        // A group of its own: an interrupt at the terminal is the engine's to handle, and what functions start can be
        // ended with the worker.
        command.process_group(0);
        for (name, value) in ENVIRONMENT.iter().chain(environment) {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let child = parent::spawn(command)?;
        let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let signals = Signals(Arc::new(Mutex::new(number)));
        Ok(Self { child, printed: Printed::read(reader, log), signals })
    }

    /// What other threads can send to the process.
    pub(crate) fn signals(&self) -> Signals {
        self.signals.clone()
    }

    /// The status with which the process has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten().and_then(|status| status.code())
    }

    /// The last lines that it printed.
    pub(crate) fn last_words(&self) -> String {
        self.printed.last_words()
    }

    /// Ends the process, and all that it has started, unless it ends by itself in time.
    pub(crate) fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let Some(process) = self.signals.number() else { return self.child.wait().ok() };
        let deadline = Instant::now() + limit;
        // The process must stay waited for until its group has been ended: its number could be given to another.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while Instant::now() < deadline && matches!(waitid(WaitId::Pid(process), options), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // An empty group is as good as one that was ended.
        let _ = kill_process_group(process, Signal::KILL);
        self.signals.forget();
        self.child.wait().ok()
    }
}

/// Sends signals to a process, as long as it has not been waited for.
#[derive(Clone, Debug)]
pub(crate) struct Signals(Arc<Mutex<Option<Pid>>>);

impl Signals {
    fn number(&self) -> Option<Pid> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Has Python raise `KeyboardInterrupt`.
    pub(crate) fn interrupt(&self) {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = *process {
            // A process that is gone needs not be told.
            let _ = kill_process(process, Signal::INT);
        }
    }

    /// Ends the process and all that it has started.
    pub(crate) fn kill(&self) {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = *process {
            // A process that is gone needs not be told.
            let _ = kill_process_group(process, Signal::KILL);
        }
    }
}

/// How a process ended.
pub(crate) fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(9)) => "was killed (signal 9), perhaps for lack of memory".to_owned(),
        (None, Some(11)) => "crashed (signal 11, segmentation fault)".to_owned(),
        (None, Some(signal)) => format!("crashed (signal {signal})"),
        (None, None) => "ended".to_owned(),
    }
}
