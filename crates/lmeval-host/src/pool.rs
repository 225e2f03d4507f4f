//! Workers that are shared by threads.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::WorkerError;
use crate::options::PythonOptions;
use crate::worker::Worker;

/// Workers, started when they are needed.
#[derive(Debug)]
pub(crate) struct Pool {
    options: PythonOptions,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Worker>,
    /// All workers, busy ones and those that are being started included.
    count: usize,
}

impl Pool {
    /// A pool without workers.
    pub(crate) fn new(options: PythonOptions) -> Self {
        Self { options, state: Mutex::default(), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker for one thread; waits while all are busy.
    pub(crate) fn worker(&self) -> Result<Lease<'_>, WorkerError> {
        let mut state = self.lock();
        loop {
            if let Some(worker) = state.idle.pop() {
                return Ok(Lease { pool: self, worker: Some(worker) });
            }
            if state.count < self.options.workers.max(1) {
                state.count += 1;
                drop(state);
                // The lease gives the place back should the start fail.
                let mut lease = Lease { pool: self, worker: None };
                lease.worker = Some(Worker::start(&self.options)?);
                return Ok(lease);
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // All are told before the first is waited for.
        for worker in &state.idle {
            worker.close();
        }
        state.idle.clear();
    }
}

/// A worker in use by one thread.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pool: &'a Pool,
    /// `None` while it is being started.
    worker: Option<Worker>,
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
        let worker = self.worker.take().filter(|worker| !worker.is_broken());
        let mut state = self.pool.lock();
        match worker {
            Some(worker) => state.idle.push(worker),
            None => state.count -= 1,
        }
        drop(state);
        self.pool.freed.notify_one();
    }
}
