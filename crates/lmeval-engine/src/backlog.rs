//! Limits how far request building may run ahead of collecting and scoring.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::cancel::Cancel;

/// How many documents may wait to be collected or scored. Bounds memory. Only the thread that builds requests
/// blocks on it: it is the one thread that can wait without delaying requests in flight.
pub(crate) const MAX_WAITING: usize = 65_536;

/// Counts documents that were sent on and not yet processed.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: Mutex<usize>,
    freed: Condvar,
}

impl Backlog {
    /// Waits for room, then counts one document. Returns false if the run is being stopped.
    pub(crate) fn enter_when_free(&self, most: usize, stop: &Cancel) -> bool {
        // Cancelling does not signal the condition variable.
        const POLL_INTERVAL: Duration = Duration::from_millis(50);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while *waiting >= most && !stop.is_cancelled() {
            waiting =
                self.freed.wait_timeout(waiting, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        *waiting += 1;
        !stop.is_cancelled()
    }

    /// Counts documents without waiting.
    pub(crate) fn enter(&self, documents: usize) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) += documents;
    }

    /// Removes processed documents from the count.
    pub(crate) fn leave(&self, documents: usize) {
        if documents > 0 {
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) -= documents;
            self.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_backlog_blocks_until_room_or_cancel() {
        let (backlog, stop) = (Backlog::default(), Cancel::new());
        assert!(backlog.enter_when_free(2, &stop));
        backlog.enter(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| backlog.enter_when_free(2, &stop));
            backlog.leave(1);
            assert!(waits.join().expect("it does not panic"));
            let waits = scope.spawn(|| backlog.enter_when_free(2, &stop));
            stop.cancel();
            assert!(!waits.join().expect("it does not panic"));
        });
        assert_eq!(*backlog.waiting.lock().expect("nothing panicked"), 3);
    }
}
