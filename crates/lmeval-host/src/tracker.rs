//! Reports runs to experiment trackers through the user's Python packages.

use std::time::Duration;

use lmeval_core::Diagnose;
use lmeval_pycompat::{Dict, Value};

use crate::error::WorkerError;
use crate::options::PythonOptions;
use crate::protocol::encode_message;
use crate::services::without_run;
use crate::worker::{Purpose, Worker};

/// How long trackers may take to close a run that did not finish.
const ABANDON_LIMIT: Duration = Duration::from_secs(10);

/// A Python process with an open run in each tracker: Weights & Biases, Trackio, repositories of the hub.
///
/// Dropped before [`Trackers::log`], it closes these runs as failed.
#[derive(Debug)]
pub struct Trackers {
    worker: Worker,
    is_open: bool,
}

/// Trackers that are not available, or that a run cannot be reported to.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TrackerError {
    message: String,
    hint: Option<String>,
    traceback: Option<String>,
    is_before_run: bool,
}

impl TrackerError {
    fn of(what: &str, error: WorkerError, is_before_run: bool) -> Self {
        let hint = error.hint();
        let message = match &error {
            WorkerError::Died { how, .. } => format!("{what}: Python {how}"),
            WorkerError::Raised { message, missing: Some(_), .. } => format!("{what}: {message}"),
            other => format!("{what}: {other}"),
        };
        let traceback = match error {
            WorkerError::Died { output, .. } => Some(output).filter(|output| !output.is_empty()),
            _ => None,
        };
        Self { message, hint, traceback, is_before_run }
    }

    /// Whether the run has not started: the command line asks for something that is not possible here.
    pub fn is_before_run(&self) -> bool {
        self.is_before_run
    }
}

impl Diagnose for TrackerError {
    fn hints(&self) -> Vec<String> {
        self.hint.iter().cloned().collect()
    }

    fn traceback(&self) -> Option<&str> {
        self.traceback.as_deref()
    }
}

/// The outcome of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Where the run can be found, one line per tracker.
    pub done: Vec<String>,
    /// The trackers that failed, with their errors.
    pub failed: Vec<String>,
}

impl Trackers {
    /// Imports the packages and opens a run in each tracker, so that a missing package or login is known before the
    /// evaluation.
    pub fn start(options: &PythonOptions, settings: &Dict) -> Result<Self, TrackerError> {
        let failed = |error| TrackerError::of("Cannot start tracking", error, true);
        let options = PythonOptions { plugins: Vec::new(), ..options.clone() };
        let worker = Worker::start(&options, Purpose::Tracking).map_err(failed)?;
        let mut trackers = Self { worker, is_open: false };
        let mut parts = Dict::new();
        parts.insert("settings", settings.clone());
        trackers.ask("trackers_start", &parts).map_err(failed)?;
        trackers.is_open = true;
        Ok(trackers)
    }

    /// Reports the finished run: `results` is the path of its results file, `samples` those of its samples files by task.
    pub fn log(mut self, results: &str, samples: &Dict) -> Result<Tracked, TrackerError> {
        self.is_open = false;
        let mut parts = Dict::new();
        parts.insert("results", results);
        parts.insert("samples", samples.clone());
        self.report("trackers_log", &parts)
    }

    /// Reports the scores of one step of a run that goes on: `results` is the path of a results file. Steps may come in any order.
    pub fn log_step(&mut self, results: &str, step: u64) -> Result<Tracked, TrackerError> {
        let mut parts = Dict::new();
        parts.insert("results", results);
        parts.insert("step", step as i64);
        self.report("trackers_step", &parts)
    }

    /// Closes the runs that [`Trackers::log_step`] has reported to.
    pub fn finish(mut self) -> Result<Tracked, TrackerError> {
        self.is_open = false;
        self.report("trackers_finish", &Dict::new())
    }

    fn report(&mut self, operation: &str, parts: &Dict) -> Result<Tracked, TrackerError> {
        let answer = self.ask(operation, parts).map_err(|error| {
            TrackerError::of("The run could not be reported to its trackers", error, false)
        })?;
        let lines = |name: &str| {
            let lines = answer.as_dict().and_then(|answer| answer.get_str(name)).and_then(Value::as_list);
            lines.unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Ok(Tracked { done: lines("done"), failed: lines("failed") })
    }

    fn ask(&mut self, operation: &str, parts: &Dict) -> Result<Value, WorkerError> {
        let mut answer = Value::None;
        let mut take = |value: Value| {
            answer = value;
            true
        };
        self.worker.converse(&encode_message(operation, parts)?, &mut take, &without_run)?;
        Ok(answer)
    }
}

impl Drop for Trackers {
    fn drop(&mut self) {
        if self.is_open {
            self.worker.set_time_limit(ABANDON_LIMIT);
            // The evaluation failed, which is what the user is told about.
            let _ = self.ask("trackers_abandon", &Dict::new());
        }
    }
}
