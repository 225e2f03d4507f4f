//! Stops waiting calls when the run ends.

use std::sync::atomic::{AtomicBool, Ordering};

use lmeval_core::{ModelError, ModelErrorKind};
use tokio::sync::Notify;

/// The signal that the run is stopping.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    started: AtomicBool,
    notify: Notify,
}

impl Shutdown {
    /// Signals that the run is stopping.
    pub(super) fn start(&self) {
        self.started.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Waits until the run is stopping.
    pub(super) async fn started(&self) {
        loop {
            let notified = self.notify.notified();
            if self.started.load(Ordering::SeqCst) {
                return;
            }
            notified.await;
        }
    }

    /// Awaits a future unless the run stops first.
    pub(super) async fn or_stop<T>(&self, future: impl Future<Output = T>) -> Result<T, ModelError> {
        tokio::select! {
            biased;
            () = self.started() => Err(stopped()),
            value = future => Ok(value),
        }
    }
}

/// The error of a call that the end of the run has cut short.
pub(super) fn stopped() -> ModelError {
    ModelError::new(ModelErrorKind::Unreachable, "The run stopped before the server answered")
}
