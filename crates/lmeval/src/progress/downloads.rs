//! Downloads of data, tokenizers and weights.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lmeval_core::DownloadProgress;

use crate::printer::Notes;

/// The size from which a download tells how far it is.
const LARGE: u64 = 100_000_000;

/// Says what is downloaded.
pub(crate) struct Downloads {
    notes: Notes,
    /// The bytes of the large download that is running: those that are here, and all.
    running: Mutex<(u64, u64)>,
    /// What is not there locally, until the hub makes trouble and somebody should know.
    not_here: Mutex<Option<String>>,
}

impl Downloads {
    /// Says it in notes.
    pub(crate) fn new(notes: Notes) -> Self {
        Self { notes, running: Mutex::default(), not_here: Mutex::new(None) }
    }
}

impl DownloadProgress for Downloads {
    fn start(&self, file: &str, done: u64, total: Option<u64>) {
        let size = total.map(|total| format!(", {:.1} MB", total as f64 / 1e6)).unwrap_or_default();
        let again = if done > 0 { ", resuming" } else { "" };
        self.notes.info(&format!("Downloading {file}{size}{again}"));
        *lock(&self.running) = (done, total.filter(|total| *total >= LARGE).unwrap_or(0));
    }

    fn advance(&self, file: &str, bytes: u64) {
        let mut running = lock(&self.running);
        let (done, total) = *running;
        running.0 += bytes;
        if total == 0 {
            return;
        }
        let tenth = |bytes: u64| bytes * 10 / total;
        let now = tenth(running.0);
        if now > tenth(done) && now < 10 {
            self.notes.info(&format!("Downloading {file}: {now}0% of {:.1} MB", total as f64 / 1e6));
        }
    }

    fn waiting(&self, file: &str) {
        self.notes.info(&format!("Waiting for another process that downloads {file}"));
    }

    fn no_local_copy(&self, dataset: &str, looked_in: &[PathBuf]) {
        let folders: Vec<String> = looked_in.iter().map(|folder| format!("`{}`", folder.display())).collect();
        let text = format!("There is no local copy of `{dataset}` in {}", folders.join(" or "));
        *lock(&self.not_here) = Some(text);
    }

    fn retry(&self, what: &str, reason: &str, wait: Duration) {
        if let Some(text) = lock(&self.not_here).take() {
            self.notes.info(&text);
        }
        self.notes.info(&format!("Trying {what} again in {:.0} s: {reason}", wait.as_secs_f64()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
