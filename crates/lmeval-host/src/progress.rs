//! How far a worker is, also when it cannot say so any more.
//!
//! Answers are sent several at a time, so those of a worker that crashes or hangs may never arrive. It notes in a file, whose
//! pages are in memory that both sides see, which of the calls of a message it is at.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the call that a worker is at.
#[derive(Debug)]
pub(crate) struct Progress {
    file: File,
    path: PathBuf,
}

impl Progress {
    /// A file for a new worker; `None` where none can be made, which costs no more than the name of a document.
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

    /// Where the worker finds the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The worker has opened the file: its name is not needed any more.
    pub(crate) fn opened(&self) {
        // What cannot be removed now is when this ends.
        let _ = fs::remove_file(&self.path);
    }

    /// How many calls of its message the worker has done.
    pub(crate) fn done(&self) -> usize {
        let (mut bytes, mut file) = ([0; 8], &self.file);
        // A file that cannot be read says nothing.
        let _ = file.rewind().and_then(|()| file.read_exact(&mut bytes));
        u64::from_le_bytes(bytes) as usize
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
