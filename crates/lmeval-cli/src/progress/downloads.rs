//! Progress of downloads: datasets, tokenizers and weights.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lmeval_core::DownloadProgress;

use crate::printer::Notes;

/// Downloads of at least this size report intermediate progress.
const LARGE: u64 = 100_000_000;

/// Reports downloads as notes.
pub(crate) struct Downloads {
    notes: Notes,
    /// The bytes completed and the total of the running large download.
    running: Mutex<(u64, u64)>,
    /// The message about a missing local copy, printed only if the hub fails.
    no_local_copy_message: Mutex<Option<String>>,
}

impl Downloads {
    /// Reports to these notes.
    pub(crate) fn new(notes: Notes) -> Self {
        Self { notes, running: Mutex::default(), no_local_copy_message: Mutex::new(None) }
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
        self.notes.info(&format!("Waiting for another process to download {file}"));
    }

    fn no_local_copy(&self, dataset: &str, looked_in: &[PathBuf]) {
        let folders: Vec<String> = looked_in.iter().map(|folder| format!("`{}`", folder.display())).collect();
        let text = format!("No local copy of `{dataset}` in {}", folders.join(" or "));
        *lock(&self.no_local_copy_message) = Some(text);
    }

    fn retry(&self, what: &str, reason: &str, wait: Duration) {
        if let Some(text) = lock(&self.no_local_copy_message).take() {
            self.notes.info(&text);
        }
        self.notes.info(&format!("Retrying {what} in {:.0} s: {reason}", wait.as_secs_f64()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
