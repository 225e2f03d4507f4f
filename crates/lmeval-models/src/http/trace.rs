//! The log of attempts. Nothing is formatted unless a log is written.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::client::Call;

/// An attempt of a call, for the log.
pub(super) struct AttemptTrace<'a> {
    pub(super) call: &'a Call<'a>,
    /// The server, without credentials.
    pub(super) url: &'a str,
    /// Counted from 1.
    pub(super) number: u32,
    /// When the call began to wait for this attempt, if there is a log.
    pub(super) queued: Option<Instant>,
    pub(super) started: Instant,
}

impl AttemptTrace<'_> {
    pub(super) fn sent(&self) {
        let Self { call, url, number, .. } = self;
        let waited = || self.queued.map(|queued| milliseconds(self.started - queued));
        debug!(
            about = call.about,
            url,
            attempt = number,
            bytes = call.body.len(),
            waited_ms = waited(),
            "Sending"
        );
    }

    pub(super) fn answered(&self, bytes: usize) {
        let Self { call, url, number, .. } = self;
        debug!(
            about = call.about,
            url,
            attempt = number,
            bytes,
            ms = milliseconds(self.started.elapsed()),
            "Answered"
        );
    }

    pub(super) fn failed(&self, reason: impl Fn() -> String) {
        let Self { call, url, number, .. } = self;
        debug!(
            about = call.about,
            url,
            attempt = number,
            ms = milliseconds(self.started.elapsed()),
            reason = reason(),
            "Failed"
        );
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}
