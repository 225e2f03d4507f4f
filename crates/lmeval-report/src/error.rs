//! Errors from writing results.

use std::io;
use std::path::{Path, PathBuf};

use lmeval_core::Diagnose;
use lmeval_pycompat::json::EncodeError;

/// An error from writing results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file system reported an error.
    #[error("Cannot {action} `{}`", path.display())]
    Write {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A value cannot be expressed in JSON.
    #[error("Cannot write {what} as JSON")]
    Encode {
        /// A description of the value.
        what: String,
        /// The JSON encoder's error.
        source: EncodeError,
    },
    /// Two tasks have the same file name.
    #[error("The tasks `{one}` and `{other}` would write the same samples file")]
    SameFile {
        /// The first task.
        one: String,
        /// The second task.
        other: String,
    },
}

impl ReportError {
    pub(crate) fn write(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { action, path, source }
    }
}

impl Diagnose for ReportError {
    fn hints(&self) -> Vec<String> {
        use io::ErrorKind::{
            NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let source = match self {
            Self::Write { source, .. } => source,
            Self::Encode { .. } => return Vec::new(),
            Self::SameFile { .. } => {
                return vec![
                    "Rename one of them, give them different `--output_path`s, or omit `--log_samples`"
                        .to_owned(),
                ];
            }
        };
        let advice = match source.kind() {
            PermissionDenied | ReadOnlyFilesystem => "Choose a writable folder with `--output_path`",
            StorageFull | QuotaExceeded => "Free some space, or choose another folder with `--output_path`",
            NotADirectory => "A file exists where a folder is needed; choose another `--output_path`",
            _ => "Choose another location with `--output_path`",
        };
        let saved =
            "Saved answers are not lost: run the same command again to send only the remaining requests";
        vec![advice.to_owned(), saved.to_owned()]
    }
}
