//! The pool of workers, shared by threads.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::display_reference;

use crate::caller::Caller;
use crate::error::WorkerError;
use crate::options::PythonOptions;
use crate::services::Services;
use crate::worker::{Purpose, Worker};

/// Workers, started on demand.
#[derive(Debug)]
pub(crate) struct Pool {
    options: PythonOptions,
    state: Mutex<State>,
    freed: Condvar,
    /// Serves requests of workers.
    pub(crate) services: Services,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<IdleWorker>,
    /// The ids of all workers, including busy and starting ones.
    ids: Vec<u64>,
    /// The id of workers started so far.
    started: u64,
    /// The id of calls that timed out.
    timeouts: usize,
    /// The function of the last timeout.
    culprit: String,
}

#[derive(Debug)]
struct IdleWorker {
    id: u64,
    worker: Worker,
}

/// Binds an object with state to one worker, chosen by the first message.
#[derive(Debug, Default)]
pub(crate) struct Pin(OnceLock<u64>);

impl Pool {
    /// The options that workers are started with.
    pub(crate) fn options(&self) -> &PythonOptions {
        &self.options
    }

    pub(crate) fn new(options: PythonOptions) -> Self {
        Self { options, state: Mutex::default(), freed: Condvar::new(), services: Services::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Python program that called the engine, if the function exists only there.
    pub(crate) fn caller_of(&self, function: &Function) -> Option<&Caller> {
        self.options.caller.as_deref().filter(|caller| caller.has(function))
    }

    /// Whether plug-ins are configured or the caller has registered names.
    pub(crate) fn has_plugins(&self) -> bool {
        let caller = self.options.caller.as_deref();
        !self.options.plugins.is_empty() || caller.is_some_and(Caller::has_any_registered)
    }

    /// The maximum id of workers.
    pub(crate) fn size(&self) -> usize {
        self.options.workers.max(1)
    }

    /// Sends a message to every idle worker. Workers that do not answer are omitted.
    pub(crate) fn ask_idle(&self, message: &str) -> Vec<Value> {
        let mut workers = std::mem::take(&mut self.lock().idle);
        let refuse = |_: &Dict| Err("requests are not served now".to_owned());
        let answers =
            workers.iter_mut().filter_map(|idle| idle.worker.ask(message, 1, &refuse).ok()?.pop()).collect();
        for IdleWorker { id, worker } in workers {
            drop(Lease { pool: self, id, worker: Some(worker), function: None });
        }
        answers
    }

    /// Leases a worker; waits while all are busy.
    ///
    /// A timeout also fails the callers that are waiting for a worker. Otherwise each of them would wait for its
    /// own timeout, one after another, although the first one ends the run.
    pub(crate) fn worker(&self) -> Result<Lease<'_>, WorkerError> {
        let mut state = self.lock();
        let timeouts = state.timeouts;
        loop {
            if state.timeouts > timeouts {
                let (culprit, limit) = (state.culprit.clone(), self.options.time_limit);
                return Err(WorkerError::Abandoned { culprit, limit });
            }
            if let Some(IdleWorker { id, worker }) = state.idle.pop() {
                return Ok(Lease { pool: self, id, worker: Some(worker), function: None });
            }
            if state.ids.len() < self.size() {
                let id = state.started;
                state.started += 1;
                state.ids.push(id);
                drop(state);
                // The lease releases the slot if the start fails.
                let mut lease = Lease { pool: self, id, worker: None, function: None };
                lease.worker = Some(Worker::start(&self.options, Purpose::Functions)?);
                return Ok(lease);
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leases the worker of a pin; waits while it is busy. If the worker has ended, its state is lost, which is an
    /// error.
    pub(crate) fn pinned(&self, pin: &Pin) -> Result<Lease<'_>, WorkerError> {
        let Some(&id) = pin.0.get() else {
            let lease = self.worker()?;
            if pin.0.set(lease.id).is_ok() {
                return Ok(lease);
            }
            // Another thread has pinned its worker meanwhile.
            drop(lease);
            return self.pinned(pin);
        };
        let mut state = self.lock();
        while state.ids.contains(&id) {
            if let Some(index) = state.idle.iter().position(|idle| idle.id == id) {
                let IdleWorker { id, worker } = state.idle.swap_remove(index);
                return Ok(Lease { pool: self, id, worker: Some(worker), function: None });
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let how = "ended, and the state of the scorer with it".to_owned();
        Err(WorkerError::Died { how, output: String::new() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Signals all of them before waiting for the first.
        for idle in &state.idle {
            idle.worker.close();
        }
        state.idle.clear();
    }
}

/// A worker leased to one thread.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pool: &'a Pool,
    id: u64,
    /// `None` while it is starting.
    worker: Option<Worker>,
    /// The called function, as displayed in messages.
    function: Option<String>,
}

impl Lease<'_> {
    /// Names the called function for the errors of waiting callers.
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
            Some(worker) => state.idle.push(IdleWorker { id: self.id, worker }),
            None => state.ids.retain(|id| *id != self.id),
        }
        if has_timed_out {
            state.timeouts += 1;
            state.culprit = self.function.take().unwrap_or_else(|| "another call".to_owned());
        }
        drop(state);
        // Others may wait for this particular worker.
        self.pool.freed.notify_all();
    }
}
