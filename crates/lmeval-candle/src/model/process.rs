//! A worker process: one model on one device.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use lmeval_core::{ModelError, ModelErrorKind};

use super::message::FromWorker;
use super::serve::COMMAND;
use crate::device::DeviceSpec;

/// Lines of a worker's standard error that are kept for the message if it dies.
const STDERR_LINES: usize = 10;
/// The environment variable for the number of threads.
pub(super) const THREADS: &str = "RAYON_NUM_THREADS";

/// A worker's standard input; `None` once it is closed.
pub(super) type Input = Arc<Mutex<Option<ChildStdin>>>;

/// A running worker process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: Input,
    output: BufReader<ChildStdout>,
    device: DeviceSpec,
    /// Collects the last lines of its standard error.
    messages: Option<JoinHandle<VecDeque<String>>>,
}

impl Process {
    /// Starts a worker and sends it `setup`. Its standard input is stored in `input`.
    pub(super) fn start(
        binary: &Path,
        device: DeviceSpec,
        threads: usize,
        setup: &str,
        input: Input,
    ) -> Result<Self, ModelError> {
        let mut command = Command::new(binary);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C must reach only the run, which still saves the answers of its workers.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.env(THREADS, threads.to_string());
        // All files are local by now, and a backtrace would only clutter the message of a dead worker.
        command.env("HF_HUB_OFFLINE", "1").env("RUST_BACKTRACE", "0");
        let failed = |error: io::Error| {
            let message = format!("Cannot start a worker for `{device}`: {error}");
            ModelError::new(ModelErrorKind::Configuration, message)
        };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("its output is not piped")));
        };
        *input.lock().unwrap_or_else(PoisonError::into_inner) = child.stdin.take();
        let messages = Some(thread::spawn(move || last_lines(BufReader::new(errors))));
        let mut process = Self { child, input, output: BufReader::new(output), device, messages };
        // If the worker is already dead, reading its first message reports why.
        let _ = process.write(setup);
        Ok(process)
    }

    /// Waits until the model is loaded.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), ModelError> {
        match self.read() {
            Ok(FromWorker::Ready) => Ok(()),
            Ok(FromWorker::Failed(error)) => Err(error),
            Ok(_) => Err(self.death("sent an unexpected message")),
            Err(()) => Err(self.death("died while loading the model")),
        }
    }

    /// Sends a line to the worker.
    pub(super) fn write(&mut self, line: &str) -> Result<(), ()> {
        write_line(&self.input, line)
    }

    /// Reads the next message. Fails at the end of the output and on an invalid line.
    pub(super) fn read(&mut self) -> Result<FromWorker, ()> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => FromWorker::from_line(line.trim_end()).ok_or(()),
            _ => Err(()),
        }
    }

    /// Stops the process and describes how it failed.
    pub(super) fn death(&mut self, what: &str) -> ModelError {
        let end = self.stop();
        let message = format!("The worker for `{}` {what}{end}", self.device);
        let mut error = ModelError::new(ModelErrorKind::Unreachable, message);
        let messages = self.messages.take().and_then(|messages| messages.join().ok()).unwrap_or_default();
        if !messages.is_empty() {
            let lines: Vec<String> = messages.into();
            error = error.hint(format!("It wrote: {}", lines.join(" / ")));
        }
        error.hint("A process that is killed without a message has often run out of memory")
    }

    /// Closes the worker's input, which makes it exit, and waits for it.
    fn stop(&mut self) -> String {
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match self.child.wait() {
            Ok(status) if status.success() => String::new(),
            Ok(status) => format!(" ({status})"),
            Err(error) => format!(" ({error})"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes a line to a worker's input, if it is open.
pub(super) fn write_line(input: &Input, line: &str) -> Result<(), ()> {
    let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(input) = input.as_mut() else { return Err(()) };
    let written = input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n"));
    written.and_then(|()| input.flush()).map_err(drop)
}

fn last_lines(errors: impl io::BufRead) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    for line in errors.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() {
            continue;
        }
        if kept.len() == STDERR_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
    kept
}
