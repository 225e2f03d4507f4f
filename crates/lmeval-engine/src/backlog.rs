//! How far building requests may run ahead of collecting and scoring.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::cancel::Cancel;

/// Documents that may wait to be collected or scored. More would only take memory: what waits for them is the one thread
/// that can wait without holding anybody up, the one that builds requests.
pub(crate) const MOST_WAITING: usize = 65_536;

/// The number of documents that were handed on and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waiting: Mutex<usize>,
    freed: Condvar,
}

impl Backlog {
    /// Counts a document as soon as there is room for it. Returns whether the run goes on.
    pub(crate) fn enter_when_free(&self, most: usize, stop: &Cancel) -> bool {
        // Nobody wakes this thread when the run is to end.
        const LOOK: Duration = Duration::from_millis(50);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while *waiting >= most && !stop.is_cancelled() {
            waiting = self.freed.wait_timeout(waiting, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *waiting += 1;
        !stop.is_cancelled()
    }

    /// Counts documents that wait in any case.
    pub(crate) fn enter(&self, documents: usize) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) += documents;
    }

    /// Counts documents that wait no longer.
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
    fn a_full_backlog_waits_for_room_and_for_the_end() {
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
