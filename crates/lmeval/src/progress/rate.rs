//! Throughput and remaining time.

use std::time::Duration;

use super::counts::Snapshot;

/// Answers and tokens per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub answers: f64,
    pub tokens: f64,
}

/// The estimated remaining time; unknown while requests are still being built.
pub(super) fn time_left(now: &Snapshot, rate: Rate) -> Option<Duration> {
    let left = now.total.saturating_sub(now.done);
    if !now.all_built || left == 0 {
        return None;
    }
    // During pauses between bursts of answers, use the average rate of the run.
    let elapsed = now.elapsed.as_secs_f64();
    let rate = if rate.answers > 0.0 || elapsed <= 0.0 { rate.answers } else { now.sent as f64 / elapsed };
    if rate <= 0.0 {
        return None;
    }
    Duration::try_from_secs_f64(left as f64 / rate).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_do_not_reset_the_estimate() {
        let now = |sent| Snapshot {
            kinds: Vec::new(),
            done: 50,
            total: 100,
            all_built: true,
            sent,
            failed: 0,
            tokens: 0,
            elapsed: Duration::from_secs(25),
        };
        let burst = Rate { answers: 10.0, tokens: 0.0 };
        assert_eq!(time_left(&now(50), burst), Some(Duration::from_secs(5)));
        assert_eq!(time_left(&now(50), Rate::default()), Some(Duration::from_secs(25)));
        assert_eq!(time_left(&now(0), Rate::default()), None);
        assert_eq!(time_left(&Snapshot { all_built: false, ..now(50) }, burst), None);
    }
}
