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
use crate::place::Place;

/// Lines of a worker's messages that are kept to explain its death.
const KEPT_LINES: usize = 10;
/// The variable that says how many threads compute.
pub(super) const THREADS: &str = "RAYON_NUM_THREADS";

/// What a worker is written to, for as long as it lives.
pub(super) type Input = Arc<Mutex<Option<ChildStdin>>>;

/// A worker process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: Input,
    output: BufReader<ChildStdout>,
    place: Place,
    /// Collects the last lines that it wrote to standard error.
    messages: Option<JoinHandle<VecDeque<String>>>,
}

impl Process {
    /// Starts a worker, which loads the model that `setup` describes; `input` is where it can be written to.
    pub(super) fn start(
        program: &Path,
        place: Place,
        threads: usize,
        setup: &str,
        input: Input,
    ) -> Result<Self, ModelError> {
        let mut command = Command::new(program);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A key press that ends the run reaches the run alone, which keeps what the workers still answer.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.env(THREADS, threads.to_string());
        // All files are here; and where a worker failed is of no use to whoever reads why.
        command.env("HF_HUB_OFFLINE", "1").env("RUST_BACKTRACE", "0");
        let failed = |error: io::Error| {
            let message = format!("No worker can be started for `{place}`: {error}");
            ModelError::new(ModelErrorKind::Configuration, message)
        };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(io::Error::other("it has no output")));
        };
        *input.lock().unwrap_or_else(PoisonError::into_inner) = child.stdin.take();
        let messages = Some(thread::spawn(move || last_lines(BufReader::new(errors))));
        let mut process = Self { child, input, output: BufReader::new(output), place, messages };
        // A worker that is gone at once says why where its first answer is read.
        let _ = process.write(setup);
        Ok(process)
    }

    /// Waits until the model is loaded.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), ModelError> {
        match self.read() {
            Ok(FromWorker::Ready) => Ok(()),
            Ok(FromWorker::Failed(error)) => Err(error),
            Ok(_) => Err(self.death("gave an answer that nobody asked for")),
            Err(()) => Err(self.death("ended before its model was loaded")),
        }
    }

    /// Writes a line.
    pub(super) fn write(&mut self, line: &str) -> Result<(), ()> {
        write_line(&self.input, line)
    }

    /// Reads the next line; fails where there is none, or none that can be understood.
    pub(super) fn read(&mut self) -> Result<FromWorker, ()> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => FromWorker::from_line(line.trim_end()).ok_or(()),
            _ => Err(()),
        }
    }

    /// Ends the process, and says why it is of no use any more.
    pub(super) fn death(&mut self, what: &str) -> ModelError {
        let end = self.stop();
        let message = format!("The worker for `{}` {what}{end}", self.place);
        let mut error = ModelError::new(ModelErrorKind::Unreachable, message);
        let messages = self.messages.take().and_then(|messages| messages.join().ok()).unwrap_or_default();
        if !messages.is_empty() {
            let lines: Vec<String> = messages.into();
            error = error.hint(format!("It wrote: {}", lines.join(" / ")));
        }
        error.hint("A process that is killed without a word has often used up the memory of the machine")
    }

    /// Closes the worker's input, which ends it, and waits for that.
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

/// Writes a line to a worker, where it still lives.
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
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
    kept
}
