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

    /// Awaits a future unless the run stops first.
    pub(super) async fn or_stop<T>(&self, future: impl Future<Output = T>) -> Result<T, ModelError> {
        let started = async {
            loop {
                let notified = self.notify.notified();
                if self.started.load(Ordering::SeqCst) {
                    return;
                }
                notified.await;
            }
        };
        tokio::select! {
            biased;
            () = started => Err(ModelError::new(ModelErrorKind::Unreachable, "The run stopped before the server answered")),
            value = future => Ok(value),
        }
    }
}
