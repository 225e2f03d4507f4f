//! The error of this crate.

use std::io;
use std::path::{Path, PathBuf};

use lmeval_core::{ModelError, ModelErrorKind};

/// Why a file of the hub is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hub answered with an error status, or with something that is not an answer of the hub.
    #[error("The hub answered {status} for {url}{}", prefixed(message))]
    Status {
        /// The address, without secrets.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What the hub said.
        message: String,
    },
    /// The hub could not be reached.
    #[error("Cannot reach the hub at {url}")]
    Connection {
        /// The address, without secrets.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something that is not in the cache is needed, and offline mode is on.
    #[error("`{what}` is not in the cache `{}`, and offline mode is on", cache.display())]
    Offline {
        /// What is missing.
        what: String,
        /// The folder of the cache.
        cache: PathBuf,
    },
    /// A download whose length or checksum is wrong.
    #[error("Download of `{file}` is damaged: {message}")]
    Damaged {
        /// The file.
        file: String,
        /// What differs.
        message: String,
    },
    /// A file of the cache could not be read or written.
    #[error("Cannot store `{path}` in the hub's cache")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

fn prefixed(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl Error {
    pub(crate) fn io(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { path: path.as_ref().display().to_string(), source }
    }

    pub(crate) fn connection(url: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Connection { url: crate::client::public(url), source: source.into() }
    }

    /// Advice that helps with this error, one sentence each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Status { status: 401 | 403, .. } => {
                "Set `HF_TOKEN` to a token that may read this repository, and accept its terms on the hub"
            }
            Self::Status { status: 404, .. } => {
                "Check the spelling of the name and its revision; private repositories need `HF_TOKEN`"
            }
            Self::Status { status: 429, .. } => {
                "The hub limits the number of requests; wait, or set `HF_TOKEN`"
            }
            Self::Status { .. } => return Vec::new(),
            Self::Offline { .. } => {
                "Run once without `HF_HUB_OFFLINE`, or copy the cache folder from a machine that has it"
            }
            Self::Connection { .. } => {
                "Check the network, `HF_ENDPOINT` and proxy settings; cached files work with `HF_HUB_OFFLINE=1`"
            }
            Self::Damaged { .. } => "Run again: the download starts over",
            Self::Io { .. } => "Check the free space and permissions of the cache; `HF_HOME` moves it",
        };
        vec![hint.into()]
    }
}

impl From<Error> for ModelError {
    fn from(error: Error) -> Self {
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            message = format!("{message}: {next}");
            cause = next.source();
        }
        let told = Self::new(ModelErrorKind::Configuration, message);
        error.hints().into_iter().fold(told, Self::hint)
    }
}
