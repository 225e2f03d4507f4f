//! A model in several worker processes (`data_parallel`).
//!
//! All workers take requests from one queue. A worker that dies is restarted, and its unanswered requests return to the
//! queue.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use lmeval_core::work_queue::{Item, Queue, in_order};
use lmeval_core::{
    Answer, AnswerSink, Diagnose as _, DistributionSink, Kept, Model, ModelError, ModelErrorKind, ModelFacts,
    ModelFuture, ModelIdentity, ModelRequest, ModelSettings, ModelStats, ModelTemplate, ModelTraits,
};
use lmeval_pycompat::Value;

use super::message::{END, FromWorker, request_json, requests_line, setup_line};
use super::prepare::Prepared;
use super::process::{Input, Process, THREADS, write_line};
use super::{BATCH_BYTES, FILL_TIME, REQUESTS};
use crate::arguments::configuration;
use crate::device::DeviceSpec;
use crate::load::Opened;

/// How often a worker is restarted without answering anything in between.
const RESTARTS: usize = 6;
/// A request fails after this many workers died with it; it was alone with the last two of them.
const DEATHS: usize = 5;

/// A model in several worker processes.
#[derive(Debug)]
pub(super) struct ParallelModel {
    prepared: Prepared,
    shared: Arc<WorkersState>,
    inputs: Vec<Input>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State shared by the threads that attend to the workers.
struct WorkersState {
    queue: Queue,
    stats: ModelStats,
    workers: usize,
    /// Workers that have not been given up.
    alive: AtomicUsize,
    is_stopping: AtomicBool,
}

impl std::fmt::Debug for WorkersState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("workers", &self.workers)
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}

/// The outcome of sending requests to a worker.
struct Delivery {
    /// Requests without an answer.
    items: Vec<Item>,
    /// Whether the worker received the requests.
    is_sent: bool,
    /// Whether it answered at least one.
    has_answered: bool,
}

/// How to start a worker.
struct Start {
    binary: PathBuf,
    device: DeviceSpec,
    threads: usize,
    setup: String,
    input: Input,
}

impl Start {
    fn process(&self) -> Result<Process, ModelError> {
        Process::start(&self.binary, self.device, self.threads, &self.setup, Arc::clone(&self.input))
    }
}

impl ParallelModel {
    /// Starts the workers and waits until all have loaded the model.
    pub(super) fn new(prepared: Prepared, settings: &ModelSettings) -> Result<Self, ModelError> {
        let binary = std::env::current_exe().map_err(|error| {
            configuration(format!("Cannot find the path of this binary to start workers: {error}"))
        })?;
        let devices = &prepared.arguments.devices;
        let share = devices.iter().filter(|device| **device == devices[0]).count();
        let mut started = Vec::with_capacity(devices.len());
        for device in devices {
            let start = Start {
                binary: binary.clone(),
                device: *device,
                threads: threads(devices.len()),
                setup: setup_line(&worker_settings(settings, &prepared, *device)?, share)?,
                input: Input::default(),
            };
            started.push((start.process()?, start));
        }
        for (process, _) in &mut started {
            process.wait_until_ready()?;
        }
        let workers = started.len();
        let shared = Arc::new(WorkersState {
            queue: Queue::default(),
            stats: ModelStats::default(),
            workers,
            alive: AtomicUsize::new(workers),
            is_stopping: AtomicBool::new(false),
        });
        let inputs = started.iter().map(|(_, start)| Arc::clone(&start.input)).collect();
        let threads = started.into_iter().map(|(process, start)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.attend(process, &start))
        });
        let threads = Mutex::new(threads.collect());
        Ok(Self { prepared, shared, inputs, threads })
    }
}

/// Threads per worker: the machine's, or those the user asked for, divided among the workers.
fn threads(workers: usize) -> usize {
    let wanted = std::env::var(THREADS).ok().and_then(|count| count.parse::<usize>().ok());
    let all = wanted.filter(|count| *count > 0);
    let all = all.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    (all / workers).max(1)
}

/// The settings of a worker: the local files, and one device.
fn worker_settings(
    settings: &ModelSettings,
    prepared: &Prepared,
    device: DeviceSpec,
) -> Result<ModelSettings, ModelError> {
    let value = |path: &Path| {
        let value = path.to_str().map(Value::str);
        value.ok_or_else(|| configuration(format!("The path `{}` is not valid UTF-8", path.display())))
    };
    let mut settings = settings.clone();
    let Opened { folder, file, .. } = &prepared.opened;
    settings.args.insert("pretrained", value(folder)?);
    if let Some(name) = file.as_ref().and_then(|file| file.file_name()) {
        settings.args.insert("gguf_file", value(Path::new(name))?);
    }
    if prepared.arguments.tokenizer.is_some() {
        settings.args.insert("tokenizer", value(prepared.encoder.tokenizer().folder())?);
    }
    settings.args.insert("device", Value::str(device.to_string()));
    settings.args.remove_str("data_parallel");
    Ok(settings)
}

impl WorkersState {
    /// Feeds one worker until the queue is closed or the worker cannot be kept alive.
    fn attend(&self, mut process: Process, start: &Start) {
        let mut restarts = 0;
        while let Some(items) = self.queue.take(self.workers) {
            let Delivery { items, is_sent, has_answered } = self.send(&mut process, items);
            if has_answered {
                restarts = 0;
            }
            if items.is_empty() {
                continue;
            }
            let error = process.death("died while answering requests");
            drop(process);
            if self.fail_or_put_back(items, is_sent, &error) {
                // The request that killed it has failed and does not return.
                restarts = 0;
            }
            if self.is_stopping.load(Ordering::Relaxed) {
                return;
            }
            self.stats.retry(error.to_string());
            process = match self.restart(start, &mut restarts) {
                Some(process) => process,
                None if self.is_stopping.load(Ordering::Relaxed) => return,
                None => return self.give_up_worker(&error),
            };
        }
    }

    /// Sends requests and delivers answers until the worker is done or dead.
    fn send(&self, process: &mut Process, items: Vec<Item>) -> Delivery {
        let line = requests_line(items.iter().map(|item| item.json.as_str()));
        let mut open: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        let is_sent = process.write(&line).is_ok();
        let mut has_answered = false;
        // Ends with `Done`, or with an error if the worker died.
        while is_sent && let Ok(FromWorker::Answered { index, answer, asked, computed }) = process.read() {
            has_answered = true;
            self.stats.tokens_asked.fetch_add(asked, Ordering::Relaxed);
            self.stats.tokens_computed.fetch_add(computed, Ordering::Relaxed);
            if let Some(item) = open.get_mut(index).and_then(Option::take) {
                item.answer(answer);
            }
        }
        Delivery { items: open.into_iter().flatten().collect(), is_sent, has_answered }
    }

    /// Returns the requests of a dead worker to the queue, and fails those that killed too many workers. Returns whether any
    /// failed.
    fn fail_or_put_back(&self, left: Vec<Item>, is_sent: bool, error: &ModelError) -> bool {
        let mut again = Vec::new();
        let mut failed = false;
        for mut item in left {
            // A worker that died before it got the requests did not die because of them.
            item.deaths += usize::from(is_sent);
            if item.deaths < DEATHS && !self.is_stopping.load(Ordering::Relaxed) {
                again.push(item);
            } else {
                failed = true;
                item.answer(Err(error.clone()));
            }
        }
        self.queue.put_back(again);
        failed
    }

    /// Restarts a worker, unless it died too often.
    fn restart(&self, start: &Start, restarts: &mut usize) -> Option<Process> {
        while *restarts < RESTARTS && !self.is_stopping.load(Ordering::Relaxed) {
            *restarts += 1;
            let process = start.process().and_then(|mut process| {
                // Do not wait for the model to load if the run stopped meanwhile.
                if !self.is_stopping.load(Ordering::Relaxed) {
                    process.wait_until_ready()?;
                }
                Ok(process)
            });
            match process {
                Ok(process) => return Some(process),
                Err(error) => self.stats.retry(error.to_string()),
            }
        }
        None
    }

    /// Gives up a worker. The others continue; without any left, the run fails.
    fn give_up_worker(&self, error: &ModelError) {
        if self.alive.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let message = format!("All workers of the model died: {error}");
        let last = ModelError::new(ModelErrorKind::Capability, message);
        self.queue.close(&error.hints().into_iter().fold(last, ModelError::hint));
    }
}

impl Model for ParallelModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.prepared.identity.clone()) })
    }

    fn portable_identity(&self) -> Option<ModelIdentity> {
        Some(self.prepared.portable_identity())
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.prepared.chat_template(name)
    }

    fn traits(&self) -> ModelTraits {
        // Free workers take requests of the next batch while the last ones of this batch are being answered.
        ModelTraits {
            batch_size: REQUESTS,
            batch_bytes: BATCH_BYTES,
            in_flight: 2,
            fill_time: FILL_TIME,
            ..ModelTraits::default()
        }
    }

    fn facts(&self) -> ModelFacts {
        self.prepared.facts.clone()
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(&self.shared.stats)
    }

    fn wind_down(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        self.shared.queue.close(&stopped());
        for input in &self.inputs {
            // A dead worker has nothing to cancel.
            let _ = write_line(input, END);
        }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        in_order(self, requests)
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, sink: AnswerSink) -> ModelFuture<'_, ()> {
        Box::pin(self.shared.queue.answer_each(requests, sink, request_json))
    }

    fn distributions(
        &self,
        _requests: Vec<ModelRequest>,
        _kept: Kept,
        _sink: DistributionSink,
    ) -> ModelFuture<'_, Result<(), ModelError>> {
        Box::pin(async {
            let message = "With `data_parallel`, the model does not return the probabilities of tokens";
            Err(ModelError::new(ModelErrorKind::Unsupported, message))
        })
    }
}

impl Drop for ParallelModel {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        self.shared.queue.close(&stopped());
        for input in &self.inputs {
            *input.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let threads = std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A panicked thread needs no cleanup.
            let _ = thread.join();
        }
    }
}

fn stopped() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The run was stopped")
}
