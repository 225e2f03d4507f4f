//! Why results could not be written.

use std::io;
use std::path::{Path, PathBuf};

use lmeval_core::Diagnose;
use lmeval_pycompat::json::EncodeError;

/// Why results could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file system refused.
    #[error("Cannot {action} `{}`", path.display())]
    Write {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A value has no place in JSON.
    #[error("Cannot write {what} as JSON")]
    Encode {
        /// What was being written.
        what: String,
        /// What is wrong with it.
        source: EncodeError,
    },
    /// Names that are written alike in file names.
    #[error("The tasks `{one}` and `{other}` would write the same samples file")]
    SameFile {
        /// A task.
        one: String,
        /// Another one.
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
                    "Rename one of them, give them different `--output_path`s, or leave out `--log_samples`"
                        .to_owned(),
                ];
            }
        };
        let advice = match source.kind() {
            PermissionDenied | ReadOnlyFilesystem => {
                "Choose a folder that can be written with `--output_path`"
            }
            StorageFull | QuotaExceeded => "Free some space, or choose another folder with `--output_path`",
            NotADirectory => "A file stands where a folder is needed; choose another `--output_path`",
            _ => "Choose another place with `--output_path`",
        };
        let kept = "Answers that were kept are not lost: the same command again sends only what is missing";
        vec![advice.to_owned(), kept.to_owned()]
    }
}
