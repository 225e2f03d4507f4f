//! Downloads of data.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lmeval_data::Progress;

use crate::printer::Notes;

/// Says what is downloaded.
pub(crate) struct Downloads {
    notes: Notes,
    /// What is not there locally, until the hub makes trouble and somebody should know.
    not_here: Mutex<Option<String>>,
}

impl Downloads {
    /// Says it in notes.
    pub(crate) fn new(notes: Notes) -> Self {
        Self { notes, not_here: Mutex::new(None) }
    }
}

impl Progress for Downloads {
    fn start(&self, file: &str, done: u64, total: Option<u64>) {
        let size = total.map(|total| format!(", {:.1} MB", total as f64 / 1e6)).unwrap_or_default();
        let again = if done > 0 { ", going on where it stopped" } else { "" };
        self.notes.info(&format!("Downloading {file}{size}{again}"));
    }

    fn no_local_copy(&self, dataset: &str, looked_in: &[PathBuf]) {
        let folders: Vec<String> = looked_in.iter().map(|folder| format!("`{}`", folder.display())).collect();
        let text = format!("There is no local copy of `{dataset}` in {}", folders.join(" or "));
        *self.not_here.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    fn retry(&self, what: &str, reason: &str, wait: Duration) {
        if let Some(text) = self.not_here.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.notes.info(&text);
        }
        self.notes.info(&format!("Trying {what} again in {:.0} s: {reason}", wait.as_secs_f64()));
    }
}
