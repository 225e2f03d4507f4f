//! Adaptive concurrency limit.
//!
//! The limit grows while calls are answered: it doubles per round trip until the first sign of trouble, then
//! grows by one per round trip. It halves, at most once per round trip, when the server reports overload,
//! fails or times out. It shrinks by a fifth when latency rises far above its best; if that does not make
//! answers faster, the requests have become slower rather than the server busier, and the decrease is undone.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lmeval_core::ModelStats;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tracing::debug;

/// Initial limit; latency alone never lowers it further.
const START: f64 = 8.0;
/// Upper bound of the limit.
pub(super) const MAX_CONCURRENCY: usize = 512;
/// Ratio of the average latency to the best at which the limit shrinks.
const FAR_ABOVE: f64 = 6.0;
/// Factor by which high latency shrinks the limit.
const LATENCY_FACTOR: f64 = 0.8;
/// Growth of the best latency per window, so that old measurements fade.
const FORGETTING: f64 = 1.01;
/// Minimum number of answers over which latency is averaged.
const WINDOW: u32 = 32;

/// Limits the calls in flight.
pub(super) struct Limiter {
    permits: Semaphore,
    /// `None` for a fixed limit.
    state: Option<Mutex<State>>,
}

struct State {
    limit: f64,
    /// Permits in use that must be retired when they are returned.
    debt: usize,
    /// Whether the limit still doubles.
    is_starting: bool,
    last_decrease: Option<Instant>,
    window: Window,
    /// The best average latency of any window, in seconds.
    best: Option<f64>,
    /// Limit and latency before the last latency-driven decrease.
    before: Option<(f64, f64)>,
}

/// Answers over which latency is averaged.
#[derive(Default)]
struct Window {
    answers: u32,
    seconds: f64,
}

/// Permission to have one call in flight.
pub(super) struct Permit<'a> {
    limiter: &'a Limiter,
    held: Option<SemaphorePermit<'a>>,
    stats: &'a ModelStats,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.stats.in_flight.fetch_sub(1, Ordering::Relaxed);
        let (Some(permit), Some(state)) = (self.held.take(), &self.limiter.state) else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.debt > 0 {
            state.debt -= 1;
            permit.forget();
        }
    }
}

impl Limiter {
    /// A fixed limit, or an adaptive one for `None`.
    pub(super) fn new(fixed: Option<usize>, stats: &ModelStats) -> Self {
        let start = fixed.map_or(START as usize, |fixed| fixed.clamp(1, Semaphore::MAX_PERMITS));
        stats.concurrency.store(start as u64, Ordering::Relaxed);
        let state = fixed.is_none().then(|| {
            Mutex::new(State {
                limit: START,
                debt: 0,
                is_starting: true,
                last_decrease: None,
                window: Window::default(),
                best: None,
                before: None,
            })
        });
        Self { permits: Semaphore::new(start), state }
    }

    /// Waits for a permit, first come, first served.
    pub(super) async fn acquire<'a>(&'a self, stats: &'a ModelStats) -> Permit<'a> {
        // The semaphore is never closed, so acquiring cannot fail.
        let permit = self.permits.acquire().await.ok();
        stats.in_flight.fetch_add(1, Ordering::Relaxed);
        Permit { limiter: self, held: permit, stats }
    }

    /// Records a timely answer to an attempt started at `started`.
    pub(super) fn answered(&self, started: Instant, stats: &ModelStats) {
        let Some(state) = &self.state else { return };
        // An unused limit has no reason to grow.
        let is_in_use = self.permits.available_permits() == 0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.limit;
        if is_in_use {
            let step = if state.is_starting { 1.0 } else { 1.0 / state.limit };
            state.limit = (state.limit + step).min(MAX_CONCURRENCY as f64);
        }
        state.note_latency(started.elapsed());
        self.apply(&mut state, before, stats);
    }

    /// Records a sign of overload from an attempt started at `started`.
    pub(super) fn overloaded(&self, started: Instant, stats: &ModelStats) {
        let Some(state) = &self.state else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls sent before the last decrease say nothing about the new limit.
        if state.last_decrease.is_some_and(|decrease| started < decrease) {
            return;
        }
        let before = state.limit;
        state.limit = (state.limit / 2.0).max(1.0);
        state.is_starting = false;
        state.last_decrease = Some(Instant::now());
        state.window = Window::default();
        state.before = None;
        self.apply(&mut state, before, stats);
    }

    /// Adds or retires permits to match the limit.
    fn apply(&self, state: &mut State, before: f64, stats: &ModelStats) {
        let (before, now) = (before as usize, state.limit as usize);
        if now > before {
            let paid = state.debt.min(now - before);
            state.debt -= paid;
            self.permits.add_permits(now - before - paid);
        } else if now < before {
            state.debt += before - now - self.permits.forget_permits(before - now);
        }
        if now != before {
            debug!(before, now, "Calls in flight");
            stats.concurrency.store(now as u64, Ordering::Relaxed);
        }
    }
}

impl State {
    fn note_latency(&mut self, latency: Duration) {
        self.window.answers += 1;
        self.window.seconds += latency.as_secs_f64();
        if self.window.answers < WINDOW.max(self.limit as u32) {
            return;
        }
        let Window { answers, seconds } = std::mem::take(&mut self.window);
        let average = seconds / f64::from(answers);
        if let Some((limit, latency)) = self.before.take()
            && average > latency * 0.95
        {
            // Fewer concurrent calls were not answered faster: the requests are slower, not the queue.
            self.best = Some(average);
            self.limit = self.limit.max(limit);
            return;
        }
        let best = self.best.map_or(average, |best| average.min(best * FORGETTING));
        self.best = Some(best);
        if average > best * FAR_ABOVE && self.limit > START {
            self.before = Some((self.limit, average));
            self.limit = (self.limit * LATENCY_FACTOR).max(START);
            self.is_starting = false;
            self.last_decrease = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(limiter: &Limiter) -> f64 {
        limiter.state.as_ref().unwrap().lock().unwrap().limit
    }

    #[tokio::test]
    async fn doubles_then_grows_linearly_and_halves_once_per_round_trip() {
        let stats = ModelStats::default();
        let limiter = Limiter::new(None, &stats);
        let mut held = Vec::new();
        for _ in 0..8 {
            held.push(limiter.acquire(&stats).await);
        }
        let started = Instant::now();
        for _ in 0..8 {
            limiter.answered(started, &stats);
            held.push(limiter.acquire(&stats).await);
        }
        assert_eq!(limit(&limiter), 16.0);
        limiter.overloaded(started, &stats);
        limiter.overloaded(started, &stats);
        assert_eq!((limit(&limiter), stats.concurrency.load(Ordering::Relaxed)), (8.0, 8));
        limiter.answered(Instant::now(), &stats);
        assert_eq!(limit(&limiter), 8.125);
        held.clear();
        assert_eq!((limiter.permits.available_permits(), stats.in_flight.load(Ordering::Relaxed)), (8, 0));
        for _ in 0..10 {
            limiter.overloaded(Instant::now(), &stats);
        }
        assert_eq!((limit(&limiter), limiter.permits.available_permits()), (1.0, 1));
    }

    #[tokio::test]
    async fn grows_only_when_used_and_adaptive() {
        let stats = ModelStats::default();
        let limiter = Limiter::new(None, &stats);
        limiter.answered(Instant::now(), &stats);
        assert_eq!(limit(&limiter), 8.0);
        let fixed = Limiter::new(Some(3), &stats);
        fixed.overloaded(Instant::now(), &stats);
        assert_eq!(fixed.permits.available_permits(), 3);
    }

    #[tokio::test]
    async fn permits_always_match_the_limit() {
        let stats = ModelStats::default();
        let limiter = Limiter::new(None, &stats);
        let mut held = Vec::new();
        for step in 0_usize..5000 {
            // Any fixed order that mixes all operations will do.
            match (step * 7919) % 13 {
                0 => limiter.overloaded(Instant::now(), &stats),
                1..=6 => limiter.answered(Instant::now(), &stats),
                7..=9 if !held.is_empty() => drop(held.swap_remove(step % held.len())),
                _ if limiter.permits.available_permits() > 0 => held.push(limiter.acquire(&stats).await),
                _ => {}
            }
            let debt = limiter.state.as_ref().unwrap().lock().unwrap().debt;
            let permits = limiter.permits.available_permits() + held.len();
            assert_eq!(permits - debt, limit(&limiter) as usize, "step {step}");
        }
        held.clear();
        assert_eq!(limiter.permits.available_permits(), limit(&limiter) as usize);
    }

    #[test]
    fn shrinks_on_high_latency_unless_that_does_not_help() {
        let mut state = State {
            limit: 100.0,
            debt: 0,
            is_starting: false,
            last_decrease: None,
            window: Window::default(),
            best: None,
            before: None,
        };
        let answers = |state: &mut State, milliseconds| {
            for _ in 0..100 {
                state.note_latency(Duration::from_millis(milliseconds));
            }
            state.window = Window::default();
        };
        answers(&mut state, 10);
        assert_eq!(state.limit, 100.0);
        answers(&mut state, 100);
        assert_eq!(state.limit, 80.0);
        answers(&mut state, 80);
        assert_eq!(state.limit, 64.0, "it helped, but latency is still high");
        answers(&mut state, 80);
        assert_eq!(state.limit, 80.0, "it did not help");
        assert!(state.best.is_some_and(|best| (best - 0.08).abs() < 1e-9), "{:?}", state.best);
    }
}
