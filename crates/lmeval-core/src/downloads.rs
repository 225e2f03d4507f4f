//! Who hears about downloads.

use std::path::PathBuf;
use std::time::Duration;

/// Hears about downloads of data sets, tokenizers and weights. Calls may come from several threads.
pub trait DownloadProgress: Send + Sync {
    /// A download begins; `done` bytes are there from an earlier attempt.
    fn start(&self, _file: &str, _done: u64, _total: Option<u64>) {}

    /// More bytes have arrived.
    fn advance(&self, _file: &str, _bytes: u64) {}

    /// A download is complete.
    fn finish(&self, _file: &str) {}

    /// Another process is downloading the same file, and its lock is awaited.
    fn waiting(&self, _file: &str) {}

    /// There is no local copy of a data set in these folders, so the hub is asked.
    fn no_local_copy(&self, _dataset: &str, _looked_in: &[PathBuf]) {}

    /// A request failed and is sent again after a wait.
    fn retry(&self, _what: &str, _reason: &str, _wait: Duration) {}
}

/// Hears about downloads and does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl DownloadProgress for NoProgress {}
