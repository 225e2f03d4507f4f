//! The error of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use lmeval_core::Diagnose;

/// An error of finding, downloading or reading a dataset.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// The folders searched for a local copy before the hub was queried.
    looked_in: Vec<PathBuf>,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be opened or read.
    #[error("Cannot read `{path}`")]
    Io {
        /// The file as displayed.
        path: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file, folder or pattern was not found in any of the searched locations.
    #[error("Cannot find `{path}`; looked for {}", list_paths(tried))]
    NotFound {
        /// The path or pattern as written.
        path: String,
        /// The full paths that were tried.
        tried: Vec<PathBuf>,
    },
    /// A data file violates its format.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// The file as displayed.
        file: String,
        /// The line in the file, from 1.
        line: u64,
        /// A description of the violation.
        message: String,
    },
    /// A value cannot be converted to the type of its column.
    #[error("`{file}`, row {row}, column `{column}`: {message}")]
    Value {
        /// The file as displayed.
        file: String,
        /// The index of the row, from 0.
        row: u64,
        /// The name of the column.
        column: String,
        /// The reason that it cannot be converted.
        message: String,
    },
    /// A Parquet or Arrow file cannot be decoded.
    #[error("Cannot decode `{file}`")]
    Columnar {
        /// The file as displayed.
        file: String,
        /// The error of the decoder.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The dataset has no such split.
    #[error("Unknown split `{split}`. Should be one of {}", quoted(available))]
    UnknownSplit {
        /// The requested split.
        split: String,
        /// The available splits.
        available: Vec<String>,
    },
    /// A split or slice has no rows.
    #[error("Split `{split}` of `{dataset}` has no rows")]
    NoRows {
        /// The split as requested.
        split: String,
        /// The name of the dataset.
        dataset: String,
    },
    /// A split instruction cannot be parsed.
    #[error("Unrecognized split instruction `{spec}`: {message}")]
    BadSplit {
        /// The instruction as written.
        spec: String,
        /// A description of the syntax error.
        message: String,
    },
    /// The dataset has no such configuration.
    #[error("Configuration `{name}` of `{dataset}` not found. Available: {}", quoted(available))]
    UnknownConfig {
        /// The name of the dataset.
        dataset: String,
        /// The requested name.
        name: String,
        /// The available names.
        available: Vec<String>,
    },
    /// The dataset has several configurations without a default, and none was requested.
    #[error("Configuration name of `{dataset}` is missing. Pick one of {}", quoted(available))]
    MissingConfig {
        /// The name of the dataset.
        dataset: String,
        /// The available names.
        available: Vec<String>,
    },
    /// A folder or repository has no supported data files.
    #[error("No supported data files in `{location}`: {message}")]
    NoDataFiles {
        /// The folder or repository.
        location: String,
        /// The files that were expected.
        message: String,
    },
    /// The front matter of a README is invalid.
    #[error("Bad metadata in `{file}`: {message}")]
    Metadata {
        /// The file as displayed.
        file: String,
        /// A description of the problem.
        message: String,
    },
    /// An option in `dataset_kwargs` is unknown or has an invalid value.
    #[error("Option `{name}` of the `{builder}` loader: {message}")]
    Option {
        /// The name of the loader.
        builder: String,
        /// The name of the option.
        name: String,
        /// A description of the problem.
        message: String,
    },
    /// A kind of data that is not supported.
    #[error("{what} is not supported")]
    Unsupported {
        /// The kind of data.
        what: String,
    },
    /// A dataset defined by Python code.
    #[error("Dataset `{dataset}` needs the script `{script}`, but scripts are not run")]
    Script {
        /// The name of the dataset.
        dataset: String,
        /// The file name of the script.
        script: String,
    },
    /// A file of the hub or of another address is not available.
    #[error(transparent)]
    Hub(#[from] lmeval_hub::Error),
}

/// Paths in backticks, joined by "and".
fn list_paths(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    quoted.join(" and ")
}

/// Names in backticks, joined by commas.
fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl Error {
    /// Creates an error.
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, looked_in: Vec::new() }))
    }

    /// The specific failure with its details.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Adds the folders searched for a local copy.
    pub(crate) fn after_looking_in(mut self, folders: Vec<PathBuf>) -> Self {
        self.0.looked_in = folders;
        self
    }

    pub(crate) fn io(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::new(ErrorKind::Io { path: path.as_ref().display().to_string(), source })
    }

    pub(crate) fn syntax(file: &str, line: u64, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Syntax { file: file.into(), line, message: message.into() })
    }

    pub(crate) fn option(builder: &str, name: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Option { builder: builder.into(), name: name.into(), message: message.into() })
    }

    pub(crate) fn columnar(file: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Columnar { file: file.into(), source: source.into() })
    }

    fn hints_of_kind(&self) -> Vec<String> {
        match self.kind() {
            ErrorKind::Script { dataset, .. } => vec![
                format!(
                    "Use the converted copy of the dataset: set `revision: refs/convert/parquet` in \
                     `dataset_kwargs`, if `{dataset}` has one"
                ),
                "Or export the rows once with Python (`save_to_disk`, `to_parquet`) and set `dataset_path` to \
                 that folder"
                    .into(),
            ],
            ErrorKind::NotFound { .. } => vec![
                "Relative paths are looked up in the working directory first, then next to the task's YAML"
                    .into(),
            ],
            ErrorKind::Hub(error) => error.hints(),
            ErrorKind::NoRows { .. } => {
                vec!["Its files are empty, or a slice such as `test[:0]` selects nothing from them".into()]
            }
            ErrorKind::MissingConfig { .. } | ErrorKind::UnknownConfig { .. } => {
                vec!["Set `dataset_name` in the task".into()]
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.kind.source()
    }
}

impl Diagnose for Error {
    fn hints(&self) -> Vec<String> {
        let mut hints = self.hints_of_kind();
        if !self.0.looked_in.is_empty() {
            hints.push(format!("There is no local copy in {}", list_paths(&self.0.looked_in)));
        }
        hints
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl From<lmeval_hub::Error> for Error {
    fn from(error: lmeval_hub::Error) -> Self {
        ErrorKind::Hub(error).into()
    }
}
