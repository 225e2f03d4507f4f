//! The error of this crate.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::Diagnose;

/// An error of a journal. Cheap to clone, because one failed write fails every caller waiting for it.
#[derive(Clone, Debug)]
pub struct Error(Arc<ErrorKind>);

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder could not be opened, read or created.
    #[error("Cannot {action} `{}`", path.display())]
    Io {
        /// The verb phrase after "Cannot", such as `read`.
        action: &'static str,
        /// The file or folder that was accessed.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process holds the journal's lock.
    #[error("`{}` is in use by {holder}", path.display())]
    Locked {
        /// The journal file.
        path: PathBuf,
        /// Process id, host and start time of the lock's holder.
        holder: String,
    },
    /// Another process has claimed the journal, on a file system without locks.
    #[error("`{}` is in use by {holder}, or was when that process was killed", path.display())]
    Claimed {
        /// The journal file.
        path: PathBuf,
        /// Process id, host and start time of the process.
        holder: String,
        /// The file with its claim.
        lock: PathBuf,
    },
    /// The file is not a journal.
    #[error("`{}` is {what}, not an answer journal", path.display())]
    Foreign {
        /// The journal file.
        path: PathBuf,
        /// The detected kind of file, such as `a JSON file`.
        what: &'static str,
    },
    /// The file was written by a newer version of lm-eval.
    #[error(
        "`{}` has format version {found}; this version of lm-eval reads versions up to {known}",
        path.display()
    )]
    Newer {
        /// The journal file.
        path: PathBuf,
        /// The format version of the file.
        found: u32,
        /// The newest format version that this build reads.
        known: u32,
    },
    /// The checksum of the header is wrong.
    #[error("The header of the journal `{}` is damaged", path.display())]
    Header {
        /// The journal file.
        path: PathBuf,
    },
    /// A record could not be written. The file ends with the last complete record.
    #[error("Cannot write to the journal `{}`", path.display())]
    Write {
        /// The journal file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Written records may not have reached the disk. The journal accepts no more records until it is reopened.
    #[error("Cannot save the journal `{}` to disk", path.display())]
    Sync {
        /// The journal file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// An answer exceeds the size limit of a record.
    #[error("An answer of {bytes} bytes is too long for the journal: the limit is {limit}")]
    TooLarge {
        /// The size of the encoded record.
        bytes: usize,
        /// The largest size allowed.
        limit: usize,
    },
    /// The journal was closed, or its writer thread panicked.
    #[error("The journal `{}` has been closed", path.display())]
    Closed {
        /// The journal file.
        path: PathBuf,
    },
}

impl Error {
    /// The specific failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    fn advice(&self) -> Option<Cow<'static, str>> {
        if let ErrorKind::Claimed { lock, .. } = self.kind() {
            let lock = lock.display();
            return Some(Cow::Owned(format!(
                "Its file system has no locks. Wait for the process to finish; if it has ended, delete `{lock}`"
            )));
        }
        self.fixed_advice().map(Cow::Borrowed)
    }

    fn fixed_advice(&self) -> Option<&'static str> {
        use io::ErrorKind::{
            FileTooLarge, NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let source = match self.kind() {
            ErrorKind::Locked { .. } => {
                return Some("Wait for it to finish, or use another --output_path or --use_cache");
            }
            ErrorKind::Foreign { what, .. } if *what == crate::header::SQLITE => {
                return Some("Pass --use_cache a new path; old response caches are imported, never written");
            }
            ErrorKind::Foreign { .. } => return Some("Use another path"),
            ErrorKind::Newer { .. } => return Some("Update lm-eval, or use another path"),
            ErrorKind::Header { .. } => {
                return Some("Restore the file from a backup, or start over with another path");
            }
            ErrorKind::Io { source, .. }
            | ErrorKind::Write { source, .. }
            | ErrorKind::Sync { source, .. } => source,
            ErrorKind::Claimed { .. } | ErrorKind::TooLarge { .. } | ErrorKind::Closed { .. } => return None,
        };
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => {
                Some("Free some space and run again; all answers so far are saved")
            }
            PermissionDenied | ReadOnlyFilesystem | NotADirectory => {
                Some("Use a writable folder: set another --output_path or --use_cache")
            }
            _ => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        ErrorKind::Io { action, path: path.to_owned(), source }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Arc::new(kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Diagnose for Error {
    fn hints(&self) -> Vec<String> {
        self.advice().map(Cow::into_owned).into_iter().collect()
    }
}
