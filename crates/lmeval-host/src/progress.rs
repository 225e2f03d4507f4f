//! The progress of a worker, readable even after a crash.
//!
//! Answers are sent in batches, so those of a worker that crashes or hangs may never arrive. The worker therefore
//! records the index of its current call in a memory-mapped file.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The index of a worker's current call.
#[derive(Debug)]
pub(crate) struct Progress {
    file: File,
    path: PathBuf,
}

impl Progress {
    /// Creates a file for a new worker. `None` if that fails; errors then do not name a document.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("lm-eval-progress-{}-{number}", process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).ok()?;
        file.write_all(&[0; 8]).ok()?;
        Some(Self { file, path })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Unlinks the file once the worker has opened it.
    pub(crate) fn opened(&self) {
        // If it cannot be removed now, `drop` retries.
        let _ = fs::remove_file(&self.path);
    }

    /// The number of completed calls of the current message.
    pub(crate) fn done(&self) -> usize {
        let (mut bytes, mut file) = ([0; 8], &self.file);
        // An unreadable file counts as 0.
        let _ = file.rewind().and_then(|()| file.read_exact(&mut bytes));
        u64::from_le_bytes(bytes) as usize
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
