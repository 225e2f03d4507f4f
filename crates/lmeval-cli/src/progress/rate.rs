//! Throughput, remaining time and silence.

use std::collections::VecDeque;
use std::time::Duration;

use super::counts::Snapshot;

/// Answers and tokens per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub answers: f64,
    pub tokens: f64,
}

/// Older moments are forgotten.
const WINDOW: Duration = Duration::from_mins(1);
/// The number of moments that are kept however old they are: workers answer in large batches.
const MOMENTS: usize = 6;
/// Shorter silences are not worth a word.
const QUIET: Duration = Duration::from_secs(15);
/// A silence is unusual if it is this many times longer than any before.
const UNUSUAL: u32 = 3;

/// The moments at which answers were seen to have arrived.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time since the start of the run, and the answers of the model by then.
    moments: VecDeque<(Duration, u64)>,
    longest_gap: Duration,
    /// When the first request was seen.
    begun: Option<Duration>,
}

impl Pace {
    /// Takes the counts of this moment into account.
    pub(super) fn note(&mut self, now: &Snapshot) {
        if self.moments.back().is_some_and(|(_, sent)| now.sent < *sent) {
            // The run has started over.
            *self = Self::default();
        }
        if now.total > now.done {
            self.begun.get_or_insert(now.elapsed);
        }
        let last = self.moments.back().copied();
        if now.sent == last.map_or(0, |(_, sent)| sent) {
            return;
        }
        if let Some((then, _)) = last {
            let gap = now.elapsed.saturating_sub(then);
            if self.moments.len() > 1 && self.is_unusual(gap) {
                // It says nothing about the pace, but the next one of about this length is not unusual.
                self.moments.clear();
                self.longest_gap = gap / 2;
            } else {
                self.longest_gap = self.longest_gap.max(gap);
            }
        }
        self.moments.push_back((now.elapsed, now.sent));
        while self.moments.len() > MOMENTS
            && self.moments.get(1).is_some_and(|(then, _)| *then + WINDOW < now.elapsed)
        {
            self.moments.pop_front();
        }
    }

    /// Answers per second. Only time between answers counts, not the time before the first one, as while workers load.
    fn answers_per_second(&self) -> Option<f64> {
        let (&(first, before), &(last, sent)) = (self.moments.front()?, self.moments.back()?);
        let span = last.saturating_sub(first);
        let (answers, time) = if span.is_zero() { (sent, last) } else { (sent - before, span) };
        (answers > 0 && !time.is_zero()).then(|| answers as f64 / time.as_secs_f64())
    }

    /// The estimated remaining time; unknown while requests are still being built, and during an unusual silence.
    pub(super) fn time_left(&self, now: &Snapshot) -> Option<Duration> {
        let left = now.total.saturating_sub(now.done);
        if !now.all_built || left == 0 || self.silence(now).is_some() {
            return None;
        }
        let estimate = Duration::try_from_secs_f64(left as f64 / self.answers_per_second()?).ok()?;
        let (last, _) = self.moments.back()?;
        Some(estimate.saturating_sub(now.elapsed.saturating_sub(*last)))
    }

    /// How long no answer has come, if that is unusual.
    pub(super) fn silence(&self, now: &Snapshot) -> Option<Duration> {
        let since = self.moments.back().map(|(then, _)| *then).or(self.begun)?;
        let silence = now.elapsed.saturating_sub(since);
        (now.total > now.done && self.is_unusual(silence)).then_some(silence)
    }

    fn is_unusual(&self, silence: Duration) -> bool {
        silence >= QUIET.max(self.longest_gap * UNUSUAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, sent: u64) -> Snapshot {
        Snapshot {
            kinds: Vec::new(),
            done: sent,
            total: 100,
            all_built: true,
            sent,
            failed: 0,
            tokens: 0,
            elapsed: Duration::from_secs(seconds),
            task: None,
        }
    }

    fn left(pace: &Pace, now: &Snapshot) -> Option<u64> {
        pace.time_left(now).map(|left| left.as_secs())
    }

    #[test]
    fn the_estimate_never_grows_between_bursts() {
        let mut pace = Pace::default();
        // Ten answers every 20 seconds, after five minutes in which workers loaded the model.
        let mut before = None;
        for second in 300..=500 {
            let now = at(second, 10 * ((second - 280) / 20).min(10));
            pace.note(&now);
            let now_left = left(&pace, &now);
            if (320..480).contains(&second) {
                assert!(now_left <= before || before.is_none(), "{second}: {before:?}, {now_left:?}");
                assert!(now_left.unwrap().abs_diff(480 - second) <= 20, "{second}: {now_left:?}");
                before = now_left;
            }
        }
        assert_eq!(left(&pace, &at(500, 100)), None);
        assert_eq!(left(&pace, &Snapshot { all_built: false, ..at(321, 20) }), None);
    }

    #[test]
    fn an_unusual_silence_has_no_estimate() {
        let mut pace = Pace::default();
        assert_eq!(pace.silence(&at(0, 0)), None);
        for second in 1..=10 {
            pace.note(&at(second, second));
        }
        assert_eq!((left(&pace, &at(10, 10)), pace.silence(&at(24, 10))), (Some(90), None));
        assert_eq!(left(&pace, &at(20, 10)), Some(80));
        assert_eq!(left(&pace, &at(25, 10)), None);
        assert_eq!(pace.silence(&at(110, 10)), Some(Duration::from_secs(100)));
        // It is usual from now on, and not part of the pace.
        pace.note(&at(110, 11));
        assert_eq!(pace.silence(&at(200, 11)), None);
        pace.note(&at(111, 12));
        assert_eq!(left(&pace, &at(111, 12)), Some(88));
        assert_eq!(pace.silence(&Snapshot { total: 11, ..at(999, 11) }), None);
    }

    #[test]
    fn a_run_that_starts_over_forgets_its_pace() {
        let mut pace = Pace::default();
        pace.note(&at(1, 50));
        pace.note(&at(2, 90));
        pace.note(&at(3, 1));
        assert_eq!(pace.moments.len(), 1);
    }
}
