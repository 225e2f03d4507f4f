//! Request counts of a run, updated by the engine's events and read by the progress display.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lmeval_core::{RequestType, Usage};

/// The counts of one request type.
#[derive(Debug, Default)]
struct Kind {
    built: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    sent: AtomicU64,
}

/// Request counts since the start of the run.
#[derive(Debug)]
pub(crate) struct RequestCounts {
    kinds: [Kind; RequestType::ALL.len()],
    tokens: AtomicU64,
    all_built: AtomicBool,
    /// The task of a recent answer.
    task: Mutex<Option<Arc<str>>>,
    started: Instant,
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// For each request type in use: completed (answered or failed) and total.
    pub kinds: Vec<(RequestType, u64, u64)>,
    /// Completed requests.
    pub done: u64,
    /// Requests built so far.
    pub total: u64,
    /// Whether all requests have been built.
    pub all_built: bool,
    /// Answers that came from the model in this run, not from the journal.
    pub sent: u64,
    /// Requests that failed permanently.
    pub failed: u64,
    /// Tokens used by answers from the model, prompts included.
    pub tokens: u64,
    /// Time since the run started.
    pub elapsed: Duration,
    /// The task of a recent answer.
    pub task: Option<Arc<str>>,
}

impl Snapshot {
    /// The percentage of completed requests; unknown while requests are still being built.
    pub(crate) fn percent(&self) -> Option<u64> {
        (self.all_built && self.total > 0).then(|| self.done * 100 / self.total)
    }
}

impl RequestCounts {
    /// Counts of zero, with the clock started.
    pub(crate) fn new() -> Self {
        Self {
            kinds: Default::default(),
            tokens: AtomicU64::new(0),
            all_built: AtomicBool::new(false),
            task: Mutex::default(),
            started: Instant::now(),
        }
    }

    fn kind(&self, kind: RequestType) -> &Kind {
        let index = RequestType::ALL.iter().position(|known| *known == kind).unwrap_or(0);
        &self.kinds[index]
    }

    /// Starts over at zero.
    pub(crate) fn reset(&self) {
        for kind in &self.kinds {
            for count in [&kind.built, &kind.answered, &kind.failed, &kind.sent] {
                count.store(0, Ordering::Relaxed);
            }
        }
        self.tokens.store(0, Ordering::Relaxed);
        self.all_built.store(false, Ordering::Relaxed);
    }

    /// Counts newly built requests.
    pub(crate) fn built(&self, kind: RequestType, count: usize) {
        self.kind(kind).built.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Marks the total as final.
    pub(crate) fn all_built(&self) {
        self.all_built.store(true, Ordering::Relaxed);
    }

    /// Notes the task of an answer, unless another thread is doing so.
    pub(crate) fn working_on(&self, task: &Arc<str>) {
        if let Ok(mut current) = self.task.try_lock()
            && current.as_ref() != Some(task)
        {
            *current = Some(Arc::clone(task));
        }
    }

    /// Counts an answer; `reused` if it came from the journal.
    pub(crate) fn answered(&self, kind: RequestType, reused: bool, usage: Usage) {
        let counts = self.kind(kind);
        counts.answered.fetch_add(1, Ordering::Relaxed);
        if !reused {
            counts.sent.fetch_add(1, Ordering::Relaxed);
            self.tokens.fetch_add(usage.prompt_tokens + usage.completion_tokens, Ordering::Relaxed);
        }
    }

    /// Counts a permanent failure.
    pub(crate) fn failed(&self, kind: RequestType) {
        self.kind(kind).failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The current counts.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sum =
            |count: fn(&Kind) -> &AtomicU64| self.kinds.iter().map(|kind| read(count(kind))).sum::<u64>();
        let kinds: Vec<(RequestType, u64, u64)> = RequestType::ALL
            .into_iter()
            .zip(&self.kinds)
            .map(|(name, kind)| (name, read(&kind.answered) + read(&kind.failed), read(&kind.built)))
            .filter(|(_, done, total)| done + total > 0)
            .collect();
        Snapshot {
            done: kinds.iter().map(|(_, done, _)| done).sum(),
            total: kinds.iter().map(|(_, _, total)| total).sum(),
            kinds,
            all_built: self.all_built.load(Ordering::Relaxed),
            sent: sum(|kind| &kind.sent),
            failed: sum(|kind| &kind.failed),
            tokens: read(&self.tokens),
            elapsed: self.started.elapsed(),
            task: self.task.lock().ok().and_then(|task| task.clone()),
        }
    }
}
