//! Retry waits and outage detection.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

/// Longest `Retry-After` that is honoured, and the most that it extends `patience` by.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_mins(10);
/// Longest backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The wait before an attempt: full jitter, from zero to a bound that doubles with every attempt, so that
/// calls that failed together do not retry together.
pub(super) fn backoff(first: Duration, attempt: u32) -> Duration {
    let longest = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1).min(16)));
    longest.min(MAX_BACKOFF.max(first)).mul_f64(random())
}

/// The server's `Retry-After`, slightly stretched so that not all calls return at once.
pub(super) fn stretched(retry_after: Duration) -> Duration {
    retry_after + (retry_after / 10).min(Duration::from_secs(1)).mul_f64(random())
}

/// A random number in [0, 1), used only for waits.
fn random() -> f64 {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    // Every `RandomState` has new keys.
    let bits = RandomState::new().hash_one(SEQUENCE.fetch_add(1, Ordering::Relaxed));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The wait requested by an answer's headers, in milliseconds, in seconds, or as a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str, unit: f64| -> Option<Duration> {
        let number: f64 = text.parse().ok()?;
        let bounded = number.max(0.0).min(MAX_RETRY_AFTER.as_secs_f64() / unit);
        Duration::try_from_secs_f64(bounded * unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(wait);
    }
    let retry_after = text(RETRY_AFTER.as_str())?;
    seconds(retry_after, 1.0).or_else(|| {
        let until = http_date(retry_after)?;
        // The date is relative to the server's clock.
        let now = text(DATE.as_str()).and_then(http_date).unwrap_or_else(|| Timestamp::now().as_second());
        let wait = u64::try_from(until.saturating_sub(now)).unwrap_or(0);
        Some(Duration::from_secs(wait).min(MAX_RETRY_AFTER))
    })
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT` into seconds since the epoch.
fn http_date(text: &str) -> Option<i64> {
    // A wrong weekday name does not change the date.
    const PARSER: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);
    PARSER.parse_timestamp(text).ok().map(Timestamp::as_second)
}

/// Tracks since when no call has been answered.
pub(super) struct Outage {
    is_on: AtomicBool,
    state: Mutex<Option<Began>>,
    /// Calls answered so far.
    answers: AtomicU64,
}

struct Began {
    at: Instant,
    /// Until when the server asked clients to wait.
    resume_at: Instant,
    /// The last failure, reported for calls that were never sent.
    reason: String,
}

impl Outage {
    pub(super) fn new() -> Self {
        Self { is_on: AtomicBool::new(false), state: Mutex::new(None), answers: AtomicU64::new(0) }
    }

    /// Records an answered call.
    pub(super) fn record_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        if self.is_on.load(Ordering::Acquire) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            *state = None;
            self.is_on.store(false, Ordering::Release);
        }
    }

    /// Calls answered so far.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Records a failure of the server, with its `Retry-After`.
    pub(super) fn record_failure(&self, retry_after: Option<Duration>, reason: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let began = state.get_or_insert_with(|| Began { at: now, resume_at: now, reason: String::new() });
        // Without a bound, a server that keeps asking to wait would never be given up on.
        let until = (now + retry_after.unwrap_or_default()).min(began.at + MAX_RETRY_AFTER);
        began.resume_at = began.resume_at.max(if retry_after.is_some() { until } else { began.at });
        reason.clone_into(&mut began.reason);
        self.is_on.store(true, Ordering::Release);
    }

    /// When unanswered calls give up, and the last failure.
    pub(super) fn deadline(&self, patience: Duration) -> Option<(Instant, String)> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().map(|began| (began.resume_at + patience, began.reason.clone()))
    }
}

/// How long a server may answer wrongly before its first good answer.
const WRONG_START: Duration = Duration::from_secs(40);

/// Tracks whether any call has ever got a good answer.
#[derive(Default)]
pub(super) struct FirstAnswer {
    has_come: AtomicBool,
    failures: Mutex<FirstFailures>,
}

/// The wrong answers before the first good one.
#[derive(Default)]
struct FirstFailures {
    since: Option<Instant>,
    attempts: u64,
    /// Calls that got at least one of them.
    calls: u64,
}

/// Wrong answers for so long that no good one can be expected.
pub(super) struct WrongStart {
    pub(super) lasted: Duration,
    pub(super) attempts: u64,
    pub(super) calls: u64,
}

impl FirstAnswer {
    /// Records a good answer.
    pub(super) fn record(&self) {
        self.has_come.store(true, Ordering::Relaxed);
    }

    /// Records a wrong answer, which may be the first one of its call. Returns the wrong answers so far if the server has had
    /// its time.
    pub(super) fn record_failure(&self, is_first_of_call: bool) -> Option<WrongStart> {
        if self.has_come.load(Ordering::Relaxed) {
            return None;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.attempts += 1;
        failures.calls += u64::from(is_first_of_call);
        let lasted = failures.since.get_or_insert_with(Instant::now).elapsed();
        let FirstFailures { attempts, calls, .. } = *failures;
        (lasted >= WRONG_START).then_some(WrongStart { lasted, attempts, calls })
    }

    /// The server has shown that it can answer, though not one of the calls: it gets the same time again.
    pub(super) fn start_over(&self) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).since = None;
    }

    /// How long a call may wait before its next attempt: the last one must not come long after the deadline.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        if self.has_come.load(Ordering::Relaxed) {
            return None;
        }
        let since = self.failures.lock().unwrap_or_else(PoisonError::into_inner).since?;
        Some((since + WRONG_START).saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        entries.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn parses_http_dates() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        for wrong in
            ["", "tomorrow", "Sun, 06 Nov 1994", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 8 GMT"]
        {
            assert_eq!(http_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parses_retry_after() {
        let ask = |entries: &[(&'static str, &str)]| retry_after(&headers(entries));
        assert_eq!(ask(&[]), None);
        assert_eq!(ask(&[("retry-after", "3")]), Some(Duration::from_secs(3)));
        assert_eq!(ask(&[("retry-after", "0.25")]), Some(Duration::from_millis(250)));
        assert_eq!(ask(&[("retry-after", "9"), ("retry-after-ms", "40")]), Some(Duration::from_millis(40)));
        assert_eq!(ask(&[("retry-after", "1e300")]), Some(MAX_RETRY_AFTER));
        assert_eq!(ask(&[("retry-after", "-5")]), Some(Duration::ZERO));
        assert_eq!(ask(&[("retry-after", "soon")]), None);
        let date =
            [("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT"), ("date", "Sun, 06 Nov 1994 08:49:37 GMT")];
        assert_eq!(ask(&date), Some(Duration::from_secs(3)));
        assert_eq!(ask(&date[..1]), Some(Duration::ZERO), "in the past");
    }

    #[test]
    fn backoff_grows_up_to_a_bound() {
        let first = Duration::from_secs(1);
        for attempt in 1..100 {
            let longest = Duration::from_secs(2_u64.pow(attempt.min(6) - 1)).min(MAX_BACKOFF);
            assert!(backoff(first, attempt) <= longest, "{attempt}");
        }
        let waits: Vec<Duration> = (0..100).map(|_| backoff(first, 1)).collect();
        assert!(waits.iter().min() < waits.iter().max(), "{waits:?}");
    }
}
