//! The error of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::Diagnose;

/// What went wrong with a journal. Cheap to clone, because one failed write fails everyone who waits for it.
#[derive(Clone, Debug)]
pub struct Error(Arc<ErrorKind>);

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder could not be used.
    #[error("Cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Somebody else writes to the journal.
    #[error("`{}` is in use by {holder}", path.display())]
    Locked {
        /// The journal.
        path: PathBuf,
        /// Process, host and time.
        holder: String,
    },
    /// The file is something else.
    #[error("`{}` is {what}, not a journal of answers", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// The file was written by a later version.
    #[error(
        "`{}` has format version {found}; this version of lm-eval reads versions up to {known}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this code.
        known: u32,
    },
    /// The first bytes of the file do not fit their checksum.
    #[error("The header of the journal `{}` is damaged", path.display())]
    Header {
        /// The file.
        path: PathBuf,
    },
    /// A record could not be written; nothing of it is left in the file.
    #[error("Cannot write to the journal `{}`", path.display())]
    Write {
        /// The journal.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// What was written may not have reached the disk. No more is written then: the journal has to be opened again.
    #[error("Cannot save the journal `{}` to disk", path.display())]
    Sync {
        /// The journal.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// An answer that does not fit into a record.
    #[error("An answer of {bytes} bytes is too long for the journal: the limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The writer has ended.
    #[error("The journal `{}` has been closed", path.display())]
    Closed {
        /// The journal.
        path: PathBuf,
    },
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What to try.
    fn advice(&self) -> Option<&'static str> {
        use io::ErrorKind::{
            FileTooLarge, NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let source = match self.kind() {
            ErrorKind::Locked { .. } => {
                return Some("Wait until it has ended, or use another --output_path or --use_cache");
            }
            ErrorKind::Foreign { what, .. } if *what == crate::header::SQLITE => {
                return Some("Give --use_cache a new path; old response caches are imported, not written to");
            }
            ErrorKind::Foreign { .. } => return Some("Use another path"),
            ErrorKind::Newer { .. } => return Some("Update lm-eval, or use another path"),
            ErrorKind::Header { .. } => {
                return Some("Restore the file from a copy, or start over with another path");
            }
            ErrorKind::Io { source, .. }
            | ErrorKind::Write { source, .. }
            | ErrorKind::Sync { source, .. } => source,
            ErrorKind::TooLarge { .. } | ErrorKind::Closed { .. } => return None,
        };
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => {
                Some("Make room and run again: everything that has been answered is kept")
            }
            PermissionDenied | ReadOnlyFilesystem | NotADirectory => {
                Some("Use a folder that can be written to: another --output_path or --use_cache")
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
        self.advice().map(str::to_owned).into_iter().collect()
    }
}
