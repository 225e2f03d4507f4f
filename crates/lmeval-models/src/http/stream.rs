//! Answers that are used while they arrive.
//!
//! Such an answer may take any time as a whole. What is limited is the time until it begins, and the time without a new byte
//! after that.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// Receives an answer while it arrives.
pub(crate) trait Receiver: Send + Sync {
    /// Called before each attempt; returns the body to send. What an earlier attempt has received can be left out of it.
    fn begin(&self) -> Bytes;

    /// Called with the bytes of a successful answer, in order.
    fn receive(&self, bytes: &[u8]);

    /// Whether something of the last attempt need not be received again.
    fn has_kept(&self) -> bool;
}

/// Called with the bytes of a successful answer as they arrive, and without any for other signs of life.
pub(super) type Tap<'a> = Option<&'a (dyn Fn(&[u8]) + Send + Sync)>;

/// How long an answer may take.
#[derive(Clone, Copy)]
pub(super) enum Limit<'a> {
    /// The whole answer.
    Whole(Duration),
    /// Its beginning, and later the time without a new byte.
    Pieces { first: Duration, idle: Duration, pace: &'a Pace },
}

/// A time that was not enough.
pub(super) enum Exceeded {
    /// For the whole answer.
    Whole(Duration),
    /// For the beginning of an answer.
    Start(Duration),
    /// Between two pieces of an answer.
    Idle(Duration),
}

impl Limit<'_> {
    /// A limit of the whole answer.
    pub(super) fn whole(time: Duration) -> Self {
        Self::Whole(time)
    }

    /// The time that has been exceeded if the answer is late.
    pub(super) fn exceeded(&self) -> Exceeded {
        match self {
            Self::Whole(time) => Exceeded::Whole(*time),
            Self::Pieces { idle, pace, .. } if pace.has_begun() => Exceeded::Idle(*idle),
            Self::Pieces { first, .. } => Exceeded::Start(*first),
        }
    }

    /// Runs `work`; `None` if it takes too long.
    pub(super) async fn apply<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        // In one place, because each use would hold all of its state.
        tokio::pin!(work);
        match self {
            Self::Whole(time) => tokio::time::timeout(*time, work).await.ok(),
            Self::Pieces { first, idle, pace } => pace.limit(*first, *idle, work).await,
        }
    }
}

/// The time between the pieces of an answer.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Mutex<Option<Instant>>,
}

impl Pace {
    /// Something has arrived.
    pub(super) fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn has_begun(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// When the time is up.
    fn due(&self, started: Instant, first: Duration, idle: Duration) -> Instant {
        match *self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(last) => last + idle,
            None => started + first,
        }
    }

    /// Runs `work`; `None` if nothing arrives within `first`, or later for `idle`.
    async fn limit<T>(&self, first: Duration, idle: Duration, work: impl Future<Output = T>) -> Option<T> {
        let started = Instant::now();
        tokio::pin!(work);
        loop {
            let due = self.due(started, first, idle);
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = tokio::time::sleep_until(due) => {
                    if self.due(started, first, idle) <= Instant::now() {
                        return None;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn limits_the_time_between_pieces_alone() {
        let pace = Pace::default();
        let work = async {
            for _ in 0..100 {
                tokio::time::sleep(9 * SECOND).await;
                pace.touch();
            }
            "done"
        };
        let started = Instant::now();
        assert_eq!(pace.limit(10 * SECOND, 10 * SECOND, work).await, Some("done"));
        assert_eq!(started.elapsed(), 900 * SECOND);
        let silent = async {
            tokio::time::sleep(5 * SECOND).await;
            pace.touch();
            tokio::time::sleep(60 * SECOND).await;
        };
        let started = Instant::now();
        assert_eq!(pace.limit(6 * SECOND, 20 * SECOND, silent).await, None);
        assert_eq!(started.elapsed(), 25 * SECOND);
        let started = Instant::now();
        let never = Pace::default().limit(6 * SECOND, SECOND, std::future::pending::<()>()).await;
        assert_eq!((never, started.elapsed()), (None, 6 * SECOND));
    }
}
