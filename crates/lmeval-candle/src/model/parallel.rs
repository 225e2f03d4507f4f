//! A model in several worker processes, one for each device (`data_parallel`).
//!
//! All of them take requests from one queue. A worker that dies is started again, and what it had not answered goes back
//! into the queue.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lmeval_core::{
    Answer, AnswerSink, Diagnose as _, Dispatch, Model, ModelError, ModelErrorKind, ModelFacts, ModelFuture,
    ModelIdentity, ModelRequest, ModelSettings, ModelStats, ModelTemplate,
};
use lmeval_pycompat::Value;
use tokio::sync::mpsc::channel;

use super::message::{END, FromWorker, request_text, requests_line, setup_line};
use super::prepare::Prepared;
use super::process::{Input, Process, THREADS, write_line};
use super::queue::{Item, Queue};
use super::sink::Sink;
use super::{BATCH_BYTES, FILL_TIME, REQUESTS, in_order};
use crate::arguments::configuration;
use crate::load::Opened;
use crate::place::Place;

/// How often a worker is started again that has answered nothing since.
const RESTARTS: usize = 6;
/// How many workers may die with a request before it fails: with the last two of them it was alone.
const DEATHS: usize = 5;

/// A model in several processes.
#[derive(Debug)]
pub(super) struct ParallelModel {
    prepared: Prepared,
    shared: Arc<Shared>,
    inputs: Vec<Input>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What those who wait for the workers share.
struct Shared {
    queue: Queue,
    stats: ModelStats,
    workers: usize,
    /// Workers that are of use.
    alive: AtomicUsize,
    is_ending: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("workers", &self.workers)
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}

/// What is left of requests that a worker was asked.
struct Left {
    /// Those without an answer.
    items: Vec<Item>,
    /// Whether the worker got them.
    is_asked: bool,
    /// Whether it answered any.
    has_answered: bool,
}

/// How a worker is started.
struct Start {
    program: PathBuf,
    place: Place,
    threads: usize,
    setup: String,
    input: Input,
}

impl Start {
    fn process(&self) -> Result<Process, ModelError> {
        Process::start(&self.program, self.place, self.threads, &self.setup, Arc::clone(&self.input))
    }
}

impl ParallelModel {
    /// Starts the workers and waits until all have loaded the model.
    pub(super) fn new(prepared: Prepared, settings: &ModelSettings) -> Result<Self, ModelError> {
        let program = std::env::current_exe().map_err(|error| {
            configuration(format!("The program cannot find itself to start workers: {error}"))
        })?;
        let places = &prepared.arguments.places;
        let share = places.iter().filter(|place| **place == places[0]).count();
        let mut started = Vec::with_capacity(places.len());
        for place in places {
            let start = Start {
                program: program.clone(),
                place: *place,
                threads: threads(places.len()),
                setup: setup_line(&of_worker(settings, &prepared, *place)?, share)?,
                input: Input::default(),
            };
            started.push((start.process()?, start));
        }
        for (process, _) in &mut started {
            process.wait_until_ready()?;
        }
        let workers = started.len();
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            stats: ModelStats::default(),
            workers,
            alive: AtomicUsize::new(workers),
            is_ending: AtomicBool::new(false),
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

/// Threads of each of some workers: those that there are, or that the user wants, are shared out.
fn threads(workers: usize) -> usize {
    let wanted = std::env::var(THREADS).ok().and_then(|number| number.parse::<usize>().ok());
    let all = wanted.filter(|number| *number > 0);
    let all = all.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    (all / workers).max(1)
}

/// The settings of a worker: the files that were found, and one device.
fn of_worker(
    settings: &ModelSettings,
    prepared: &Prepared,
    place: Place,
) -> Result<ModelSettings, ModelError> {
    let text = |path: &Path| {
        let text = path.to_str().map(Value::str);
        text.ok_or_else(|| configuration(format!("The path `{}` is no valid text", path.display())))
    };
    let mut settings = settings.clone();
    let Opened { folder, file, .. } = &prepared.opened;
    settings.args.insert("pretrained", text(folder)?);
    if let Some(name) = file.as_ref().and_then(|file| file.file_name()) {
        settings.args.insert("gguf_file", text(Path::new(name))?);
    }
    if prepared.arguments.tokenizer.is_some() {
        settings.args.insert("tokenizer", text(prepared.codec.tokenizer().folder())?);
    }
    settings.args.insert("device", Value::str(place.to_string()));
    settings.args.remove_str("data_parallel");
    Ok(settings)
}

impl Shared {
    /// Hands requests to one worker until there are no more, or the worker cannot be kept alive.
    fn attend(&self, mut process: Process, start: &Start) {
        let mut restarts = 0;
        while let Some(items) = self.queue.take(self.workers) {
            let Left { items, is_asked, has_answered } = self.ask(&mut process, items);
            if has_answered {
                restarts = 0;
            }
            if items.is_empty() {
                continue;
            }
            let error = process.death("ended while it worked");
            drop(process);
            if self.give_up_or_put_back(items, is_asked, &error) {
                // The one that killed it is gone.
                restarts = 0;
            }
            if self.is_ending.load(Ordering::Relaxed) {
                return;
            }
            self.stats.retry(error.to_string());
            process = match self.restart(start, &mut restarts) {
                Some(process) => process,
                None if self.is_ending.load(Ordering::Relaxed) => return,
                None => return self.leave(&error),
            };
        }
    }

    /// Has requests answered, until the worker is done or dead.
    fn ask(&self, process: &mut Process, items: Vec<Item>) -> Left {
        let line = requests_line(items.iter().map(|item| item.text.as_str()));
        let mut open: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        let is_asked = process.write(&line).is_ok();
        let mut has_answered = false;
        // A worker that is done says so; one that is dead says nothing.
        while is_asked && let Ok(FromWorker::Answered { place, answer, asked, computed }) = process.read() {
            has_answered = true;
            self.stats.tokens_asked.fetch_add(asked, Ordering::Relaxed);
            self.stats.tokens_computed.fetch_add(computed, Ordering::Relaxed);
            if let Some(item) = open.get_mut(place).and_then(Option::take) {
                item.answer(answer);
            }
        }
        Left { items: open.into_iter().flatten().collect(), is_asked, has_answered }
    }

    /// Puts requests back that a worker died with, and fails those that too many died with; whether there were some.
    fn give_up_or_put_back(&self, left: Vec<Item>, is_asked: bool, error: &ModelError) -> bool {
        let mut again = Vec::new();
        let mut failed = false;
        for mut item in left {
            // A worker that was dead before it was asked did not die of what it was asked.
            item.deaths += usize::from(is_asked);
            if item.deaths < DEATHS && !self.is_ending.load(Ordering::Relaxed) {
                again.push(item);
            } else {
                failed = true;
                item.answer(Err(error.clone()));
            }
        }
        self.queue.put_back(again);
        failed
    }

    /// Starts a worker again, where it did not die too often.
    fn restart(&self, start: &Start, restarts: &mut usize) -> Option<Process> {
        while *restarts < RESTARTS && !self.is_ending.load(Ordering::Relaxed) {
            *restarts += 1;
            let process = start.process().and_then(|mut process| {
                // The run may have ended meanwhile: nobody waits for the model to be loaded then.
                if !self.is_ending.load(Ordering::Relaxed) {
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

    /// A worker is gone for good. The others go on; without any, the run cannot.
    fn leave(&self, error: &ModelError) {
        if self.alive.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let message = format!("All workers of the model are gone: {error}");
        let last = ModelError::new(ModelErrorKind::Capability, message);
        self.queue.close(&error.hints().into_iter().fold(last, ModelError::hint));
    }
}

impl Model for ParallelModel {
    fn identity(&self) -> ModelFuture<'_, Result<ModelIdentity, ModelError>> {
        Box::pin(async { Ok(self.prepared.identity.clone()) })
    }

    fn chat_template(&self, name: Option<&str>) -> Result<ModelTemplate, ModelError> {
        self.prepared.chat_template(name)
    }

    fn dispatch(&self) -> Dispatch {
        // While the last requests of one batch are answered, workers that are free take those of the next one.
        Dispatch { batch_size: REQUESTS, in_flight: 2 }
    }

    fn batch_bytes(&self) -> usize {
        BATCH_BYTES
    }

    fn fill_time(&self) -> Duration {
        FILL_TIME
    }

    fn facts(&self) -> ModelFacts {
        self.prepared.facts.clone()
    }

    fn stats(&self) -> Option<&ModelStats> {
        Some(&self.shared.stats)
    }

    fn wind_down(&self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.shared.queue.close(&ended());
        for input in &self.inputs {
            // A worker that is gone has nothing to end.
            let _ = write_line(input, END);
        }
    }

    fn answer(&self, requests: Vec<ModelRequest>) -> ModelFuture<'_, Vec<Result<Answer, ModelError>>> {
        in_order(self, requests)
    }

    fn answer_each(&self, requests: Vec<ModelRequest>, sink: AnswerSink) -> ModelFuture<'_, ()> {
        Box::pin(async move {
            let sink = Arc::new(Sink::new(sink, requests.len()));
            let (open, mut done) = channel(1);
            let mut items = Vec::with_capacity(requests.len());
            for (place, request) in requests.iter().enumerate() {
                match request_text(request) {
                    Ok(text) => items.push(Item::new(text, place, &sink, &open)),
                    Err(error) => sink.give(place, Err(error)),
                }
            }
            drop((requests, open));
            self.shared.queue.add(items);
            // Nothing is ever sent: it ends when no request is open any more.
            let _ = done.recv().await;
        })
    }
}

impl Drop for ParallelModel {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.shared.queue.close(&ended());
        for input in &self.inputs {
            *input.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let threads = std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that failed has nothing left to do.
            let _ = thread.join();
        }
    }
}

fn ended() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The run was ended")
}
