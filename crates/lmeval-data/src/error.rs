//! The error of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use lmeval_core::Diagnose;

/// What went wrong while a data set was found, fetched or read.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// Where a local copy was looked for before the hub was asked.
    looked_in: Vec<PathBuf>,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be opened or read.
    #[error("Cannot read `{path}`")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No file, folder or pattern match at any of the places where one was looked for.
    #[error("Cannot find `{path}`; looked for {}", list_paths(tried))]
    NotFound {
        /// The path or pattern as written.
        path: String,
        /// The full paths that were tried.
        tried: Vec<PathBuf>,
    },
    /// A data file that breaks the rules of its format.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// The line in the file, from 1.
        line: u64,
        /// What is wrong there.
        message: String,
    },
    /// A value that does not fit the type of its column.
    #[error("`{file}`, row {row}, column `{column}`: {message}")]
    Value {
        /// The file.
        file: String,
        /// The row, from 0.
        row: u64,
        /// The column.
        column: String,
        /// Why it does not fit.
        message: String,
    },
    /// A Parquet or Arrow file that cannot be decoded.
    #[error("Cannot decode `{file}`")]
    Columnar {
        /// The file.
        file: String,
        /// The decoder's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A split that the data set does not have.
    #[error("Unknown split `{split}`. Should be one of {}", quoted(available))]
    UnknownSplit {
        /// The split that was asked for.
        split: String,
        /// The splits there are.
        available: Vec<String>,
    },
    /// A split or slice without rows.
    #[error("Split `{split}` of `{dataset}` corresponds to no data")]
    NoRows {
        /// The split as asked for.
        split: String,
        /// The data set.
        dataset: String,
    },
    /// A split instruction that cannot be read.
    #[error("Unrecognized split instruction `{spec}`: {message}")]
    BadSplit {
        /// The instruction.
        spec: String,
        /// What is wrong with it.
        message: String,
    },
    /// A configuration that the data set does not have.
    #[error("Configuration `{name}` of `{dataset}` not found. Available: {}", quoted(available))]
    UnknownConfig {
        /// The data set.
        dataset: String,
        /// The name that was asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },
    /// Several configurations, none of them the default, and no name given.
    #[error("Configuration name of `{dataset}` is missing. Pick one of {}", quoted(available))]
    MissingConfig {
        /// The data set.
        dataset: String,
        /// The names there are.
        available: Vec<String>,
    },
    /// A folder or repository without data files that can be read.
    #[error("No supported data files in `{place}`: {message}")]
    NoDataFiles {
        /// The folder or repository.
        place: String,
        /// What was looked for.
        message: String,
    },
    /// A README whose front matter cannot be used.
    #[error("Bad metadata in `{file}`: {message}")]
    Metadata {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// An option in `dataset_kwargs` that is unknown or has a wrong value.
    #[error("Option `{name}` of the `{builder}` loader: {message}")]
    Option {
        /// The loader.
        builder: String,
        /// The option.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A kind of data that is not read.
    #[error("{what} is not supported")]
    Unsupported {
        /// The kind of data.
        what: String,
    },
    /// A data set that is defined by Python code.
    #[error("Data set `{dataset}` needs the script `{script}`, and scripts are not run")]
    Script {
        /// The data set.
        dataset: String,
        /// The script.
        script: String,
    },
    /// A file of the hub, or of another address, is not available.
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
    /// An error of a kind.
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, looked_in: Vec::new() }))
    }

    /// The kind with its details.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Adds where a local copy was looked for.
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

    /// Advice that helps with this error, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let mut hints = self.hints_of_kind();
        if !self.0.looked_in.is_empty() {
            hints.push(format!("There is no local copy in {}", list_paths(&self.0.looked_in)));
        }
        hints
    }

    fn hints_of_kind(&self) -> Vec<String> {
        match self.kind() {
            ErrorKind::Script { dataset, .. } => vec![
                format!(
                    "Use the converted copy of the data set: put `revision: refs/convert/parquet` into \
                     `dataset_kwargs`, if `{dataset}` has one"
                ),
                "Or export the rows once with Python (`save_to_disk`, `to_parquet`) and name that folder as \
                 `dataset_path`"
                    .into(),
            ],
            ErrorKind::NotFound { .. } => vec![
                "Relative paths are looked up in the working directory first, then next to the task's YAML"
                    .into(),
            ],
            ErrorKind::Hub(error) => error.hints(),
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
        Self::hints(self)
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
