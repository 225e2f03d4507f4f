//! Requests-per-minute and tokens-per-minute limits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A token bucket.
///
/// It holds one second's worth, so that a per-minute limit also applies within every part of the minute.
pub(super) struct Bucket {
    per_second: f64,
    capacity: f64,
    state: Mutex<(f64, Instant)>,
}

impl Bucket {
    /// Starts full.
    pub(super) fn new(per_minute: f64) -> Self {
        let per_second = per_minute / 60.0;
        let capacity = per_second.max(1.0);
        Self { per_second, capacity, state: Mutex::new((capacity, Instant::now())) }
    }

    /// Draws an amount and returns how long to wait until it is covered. An amount over the capacity delays
    /// later calls too.
    pub(super) fn draw(&self, amount: f64) -> Duration {
        self.draw_at(amount, Instant::now())
    }

    fn draw_at(&self, amount: f64, now: Instant) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (level, at) = *state;
        let inflow = now.saturating_duration_since(at).as_secs_f64() * self.per_second;
        let level = (level + inflow).min(self.capacity) - amount;
        *state = (level, now.max(at));
        if level >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-level / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_calls_over_time() {
        let bucket = Bucket::new(120.0);
        let start = Instant::now();
        let waits: Vec<Duration> = (0..5).map(|_| bucket.draw_at(1.0, start)).collect();
        let expected = [0.0, 0.0, 0.5, 1.0, 1.5].map(Duration::from_secs_f64);
        for (wait, expected) in waits.iter().zip(expected) {
            assert!(wait.abs_diff(expected) < Duration::from_millis(10), "{waits:?}");
        }
        assert_eq!(bucket.draw_at(1.0, start + Duration::from_mins(1)), Duration::ZERO);
    }

    #[test]
    fn delays_a_call_above_the_capacity() {
        let bucket = Bucket::new(60.0);
        let start = Instant::now();
        assert!(bucket.draw_at(11.0, start).abs_diff(Duration::from_secs(10)) < Duration::from_millis(10));
        assert!(bucket.draw_at(1.0, start).abs_diff(Duration::from_secs(11)) < Duration::from_millis(10));
    }
}
