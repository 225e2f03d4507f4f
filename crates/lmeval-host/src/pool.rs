//! Workers that are shared by threads.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use lmeval_core::display_reference;
use lmeval_pycompat::{Dict, Function, Value};

use crate::caller::Caller;
use crate::error::WorkerError;
use crate::options::PythonOptions;
use crate::services::Services;
use crate::worker::{Purpose, Worker};

/// Workers, started when they are needed.
#[derive(Debug)]
pub(crate) struct Pool {
    options: PythonOptions,
    state: Mutex<State>,
    freed: Condvar,
    /// What answers the questions of workers.
    pub(crate) services: Services,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Numbered>,
    /// The numbers of all workers, busy ones and those that are being started included.
    numbers: Vec<u64>,
    /// How many workers there have been.
    started: u64,
    /// How many calls have taken too long.
    timeouts: usize,
    /// The function of the last one.
    culprit: String,
}

#[derive(Debug)]
struct Numbered {
    number: u64,
    worker: Worker,
}

/// The one worker that an object with a state lives in; it is chosen by the first message.
#[derive(Debug, Default)]
pub(crate) struct Pin(OnceLock<u64>);

impl Pool {
    /// A pool without workers.
    /// How Python is run.
    pub(crate) fn options(&self) -> &PythonOptions {
        &self.options
    }

    pub(crate) fn new(options: PythonOptions) -> Self {
        Self { options, state: Mutex::default(), freed: Condvar::new(), services: Services::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program that called the engine, for a function that exists there alone.
    pub(crate) fn caller_of(&self, function: &Function) -> Option<&Caller> {
        self.options.caller.as_deref().filter(|caller| caller.has(function))
    }

    /// Whether plug-ins were named, or the caller has registered things itself.
    pub(crate) fn has_plugins(&self) -> bool {
        let caller = self.options.caller.as_deref();
        !self.options.plugins.is_empty() || caller.is_some_and(Caller::has_any_registered)
    }

    /// How many workers there are at most.
    pub(crate) fn size(&self) -> usize {
        self.options.workers.max(1)
    }

    /// Asks every worker that is idle something without an own place in a run; one that gives no answer is left out.
    pub(crate) fn ask_idle(&self, message: &str) -> Vec<Value> {
        let mut workers = std::mem::take(&mut self.lock().idle);
        let nothing = |_: &Dict| Err("nothing can be asked now".to_owned());
        let answers =
            workers.iter_mut().filter_map(|idle| idle.worker.ask(message, 1, &nothing).ok()?.pop()).collect();
        for Numbered { number, worker } in workers {
            drop(Lease { pool: self, number, worker: Some(worker), function: None });
        }
        answers
    }

    /// A worker for one thread; waits while all are busy.
    ///
    /// A call that takes too long fails those that wait for a worker as well. Each of them would otherwise wait for its
    /// own timeout, one after the other, although the first one ends the task.
    pub(crate) fn worker(&self) -> Result<Lease<'_>, WorkerError> {
        let mut state = self.lock();
        let timeouts = state.timeouts;
        loop {
            if state.timeouts > timeouts {
                let (culprit, limit) = (state.culprit.clone(), self.options.time_limit);
                return Err(WorkerError::Abandoned { culprit, limit });
            }
            if let Some(Numbered { number, worker }) = state.idle.pop() {
                return Ok(Lease { pool: self, number, worker: Some(worker), function: None });
            }
            if state.numbers.len() < self.size() {
                let number = state.started;
                state.started += 1;
                state.numbers.push(number);
                drop(state);
                // The lease gives the place back should the start fail.
                let mut lease = Lease { pool: self, number, worker: None, function: None };
                lease.worker = Some(Worker::start(&self.options, Purpose::Functions)?);
                return Ok(lease);
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The worker of a pin; waits while it is busy. One that has ended took its state along, which is an error.
    pub(crate) fn pinned(&self, pin: &Pin) -> Result<Lease<'_>, WorkerError> {
        let Some(&number) = pin.0.get() else {
            let lease = self.worker()?;
            if pin.0.set(lease.number).is_ok() {
                return Ok(lease);
            }
            // Another thread pinned its worker in the meantime.
            drop(lease);
            return self.pinned(pin);
        };
        let mut state = self.lock();
        while state.numbers.contains(&number) {
            if let Some(place) = state.idle.iter().position(|idle| idle.number == number) {
                let Numbered { number, worker } = state.idle.swap_remove(place);
                return Ok(Lease { pool: self, number, worker: Some(worker), function: None });
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let how = "ended, and with it what the scorer had kept in its object".to_owned();
        Err(WorkerError::Died { how, said: String::new() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // All are told before the first is waited for.
        for idle in &state.idle {
            idle.worker.close();
        }
        state.idle.clear();
    }
}

/// A worker in use by one thread.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pool: &'a Pool,
    number: u64,
    /// `None` while it is being started.
    worker: Option<Worker>,
    /// What was called, as messages show it.
    function: Option<String>,
}

impl Lease<'_> {
    /// Says which function is called, for the errors of those that wait.
    pub(crate) fn calls(mut self, function: &Function) -> Self {
        self.function = Some(display_reference(&function.reference));
        self
    }
}

impl Deref for Lease<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        self.worker.as_ref().expect("a lease that was handed out has a worker")
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("a lease that was handed out has a worker")
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let has_timed_out = self.worker.as_ref().is_some_and(Worker::has_timed_out);
        let worker = self.worker.take().filter(|worker| !worker.is_broken());
        let mut state = self.pool.lock();
        match worker {
            Some(worker) => state.idle.push(Numbered { number: self.number, worker }),
            None => state.numbers.retain(|number| *number != self.number),
        }
        if has_timed_out {
            state.timeouts += 1;
            state.culprit = self.function.take().unwrap_or_else(|| "another call".to_owned());
        }
        drop(state);
        // Somebody may wait for this very worker.
        self.pool.freed.notify_all();
    }
}
