//! Downloads of data.

use std::time::Duration;

use lmeval_data::Progress;

use crate::printer::Notes;

/// Says what is downloaded.
pub(crate) struct Downloads(pub(crate) Notes);

impl Progress for Downloads {
    fn start(&self, file: &str, done: u64, total: Option<u64>) {
        let size = total.map(|total| format!(", {:.1} MB", total as f64 / 1e6)).unwrap_or_default();
        let again = if done > 0 { ", going on where it stopped" } else { "" };
        self.0.info(&format!("Downloading {file}{size}{again}"));
    }

    fn retry(&self, what: &str, reason: &str, wait: Duration) {
        self.0.info(&format!("Trying {what} again in {:.0} s: {reason}", wait.as_secs_f64()));
    }
}
