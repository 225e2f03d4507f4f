//! Counts of a run, kept by those who answer and read by those who show them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lmeval_core::{RequestType, Usage};

/// The kinds of requests, in the order in which they are shown.
const KINDS: [RequestType; 3] =
    [RequestType::Loglikelihood, RequestType::LoglikelihoodRolling, RequestType::GenerateUntil];

/// The counts of one kind of requests.
#[derive(Debug, Default)]
struct Kind {
    built: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    sent: AtomicU64,
}

/// What has happened so far.
#[derive(Debug)]
pub(crate) struct Board {
    kinds: [Kind; 3],
    tokens: AtomicU64,
    all_built: AtomicBool,
    started: Instant,
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// For each kind of which there is one: done and all, answers and failures together.
    pub kinds: Vec<(RequestType, u64, u64)>,
    /// Requests that are done.
    pub done: u64,
    /// Requests that there are.
    pub total: u64,
    /// Whether there will be no more.
    pub all_built: bool,
    /// Answers that came from the model in this run.
    pub sent: u64,
    /// Requests that failed for good.
    pub failed: u64,
    /// Tokens that answers from the model took, prompts included.
    pub tokens: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

impl Board {
    /// A board on which nothing has happened.
    pub(crate) fn new() -> Self {
        Self {
            kinds: Default::default(),
            tokens: AtomicU64::new(0),
            all_built: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    fn kind(&self, kind: RequestType) -> &Kind {
        let place = KINDS.iter().position(|known| *known == kind).unwrap_or(0);
        &self.kinds[place]
    }

    /// Requests were built.
    pub(crate) fn built(&self, kind: RequestType, count: usize) {
        self.kind(kind).built.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// There will be no more requests.
    pub(crate) fn all_built(&self) {
        self.all_built.store(true, Ordering::Relaxed);
    }

    /// A request was answered; `reused` if not by the model now.
    pub(crate) fn answered(&self, kind: RequestType, reused: bool, usage: Usage) {
        let counts = self.kind(kind);
        counts.answered.fetch_add(1, Ordering::Relaxed);
        if !reused {
            counts.sent.fetch_add(1, Ordering::Relaxed);
            self.tokens.fetch_add(usage.prompt_tokens + usage.completion_tokens, Ordering::Relaxed);
        }
    }

    /// A request failed for good.
    pub(crate) fn failed(&self, kind: RequestType) {
        self.kind(kind).failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sum =
            |count: fn(&Kind) -> &AtomicU64| self.kinds.iter().map(|kind| read(count(kind))).sum::<u64>();
        let kinds: Vec<(RequestType, u64, u64)> = KINDS
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
        }
    }
}
