//! Calls that wait end with the run.

use std::sync::atomic::{AtomicBool, Ordering};

use lmeval_core::{ModelError, ModelErrorKind};
use tokio::sync::Notify;

/// Whether the run is to end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    begun: AtomicBool,
    notify: Notify,
}

impl Ending {
    /// The run is to end.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Waits for something, unless the run is to end.
    pub(super) async fn unless<T>(&self, waited_for: impl Future<Output = T>) -> Result<T, ModelError> {
        let begun = async {
            loop {
                let notified = self.notify.notified();
                if self.begun.load(Ordering::SeqCst) {
                    return;
                }
                notified.await;
            }
        };
        tokio::select! {
            biased;
            () = begun => Err(ModelError::new(ModelErrorKind::Unreachable, "The run ended before an answer came")),
            value = waited_for => Ok(value),
        }
    }
}
