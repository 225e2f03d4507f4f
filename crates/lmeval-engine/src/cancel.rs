//! Ending a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks a run to end: nothing new is sent, what is under way is waited for and saved.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    asked: AtomicBool,
    notify: Notify,
}

impl Cancel {
    /// A run that nobody has asked to end.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to end.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Whether the run was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Waits until the run is asked to end.
    pub(crate) async fn cancelled(&self) {
        loop {
            let notified = self.0.notify.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }
}
