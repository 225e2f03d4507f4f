//! The connection to the process that runs a model.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lmeval_pycompat::{Dict, Value};

use crate::caller::Caller;
use crate::error::WorkerError;
use crate::options::PythonOptions;
use crate::process::Signals;
use crate::services::Served;
use crate::worker::{Purpose, Worker};

/// How long an interrupted model may take to react before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Receives an answer and returns whether it was the last one.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Value) -> bool;

/// A connection to a model. Only one conversation is in flight at a time; others wait.
pub(crate) trait Link: Debug + Send + Sync {
    /// Sends a message and receives its answers; `serve` handles requests of the model meanwhile.
    fn converse(
        &self,
        message: &str,
        take: Take<'_>,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<(), WorkerError>;

    /// Interrupts the conversation in flight, if any.
    fn interrupt(&self) {}

    /// Whether the model is an object of the calling program, to which each call may matter.
    fn is_live(&self) -> bool {
        false
    }
}

/// A process started for a model.
#[derive(Debug)]
pub(crate) struct ModelProcess {
    worker: Mutex<Worker>,
    signals: Signals,
    is_busy: Arc<AtomicBool>,
}

impl ModelProcess {
    pub(crate) fn start(options: &PythonOptions, purpose: Purpose) -> Result<Self, WorkerError> {
        let worker = Worker::start(options, purpose)?;
        Ok(Self { signals: worker.signals(), worker: Mutex::new(worker), is_busy: Arc::default() })
    }
}

impl Link for ModelProcess {
    fn converse(
        &self,
        message: &str,
        take: Take<'_>,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<(), WorkerError> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_broken() {
            return Err(WorkerError::Died { how: "had already ended".to_owned(), output: String::new() });
        }
        self.is_busy.store(true, Ordering::SeqCst);
        let conversed = worker.converse(message, take, serve);
        self.is_busy.store(false, Ordering::SeqCst);
        conversed
    }

    fn interrupt(&self) {
        if !self.is_busy.load(Ordering::SeqCst) {
            return;
        }
        self.signals.interrupt();
        let (signals, is_busy) = (self.signals.clone(), Arc::clone(&self.is_busy));
        let kill = move || {
            thread::sleep(GRACE);
            if is_busy.load(Ordering::SeqCst) {
                signals.kill();
            }
        };
        // If the thread cannot be started, a second Ctrl-C kills the model.
        let _ = thread::Builder::new().name("python-end".to_owned()).spawn(kill);
    }
}

impl Link for Arc<Caller> {
    fn converse(
        &self,
        message: &str,
        take: Take<'_>,
        serve: &dyn Fn(&Dict) -> Served,
    ) -> Result<(), WorkerError> {
        Caller::converse(self, message, take, serve)
    }

    fn is_live(&self) -> bool {
        true
    }
}
