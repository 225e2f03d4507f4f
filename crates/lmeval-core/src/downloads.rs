//! Progress of downloads.

use std::path::PathBuf;
use std::time::Duration;

/// Receives progress of downloads of datasets, tokenizers and weights. Calls may come from several threads.
pub trait DownloadProgress: Send + Sync {
    /// A download starts; `done` bytes are already on disk from an earlier attempt.
    fn start(&self, _file: &str, _done: u64, _total: Option<u64>) {}

    /// More bytes have arrived.
    fn advance(&self, _file: &str, _bytes: u64) {}

    /// A download is complete.
    fn finish(&self, _file: &str) {}

    /// Another process is downloading the same file; this one waits for its lock.
    fn waiting(&self, _file: &str) {}

    /// A dataset was not found in any of these folders and will be requested from the hub.
    fn no_local_copy(&self, _dataset: &str, _looked_in: &[PathBuf]) {}

    /// A request failed and is sent again after a wait.
    fn retry(&self, _what: &str, _reason: &str, _wait: Duration) {}
}

/// Hears about downloads and does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl DownloadProgress for NoProgress {}
