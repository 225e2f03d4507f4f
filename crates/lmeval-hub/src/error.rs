//! The error of this crate.

use std::io;
use std::path::{Path, PathBuf};

use lmeval_core::{Diagnose, ModelError, ModelErrorKind};

/// Why a file is not available from the hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hub returned an error status or an unexpected response.
    #[error("The server returned status {status} for {url}{}", prefixed(message))]
    Status {
        /// The URL without credentials and query.
        url: String,
        /// The HTTP status code.
        status: u16,
        /// The hub's `X-Error-Message`, or what is wrong with the response.
        message: String,
    },
    /// No response, or the connection was lost.
    #[error("Cannot reach {url}")]
    Connection {
        /// The URL without credentials and query.
        url: String,
        /// The underlying error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Not in the cache, and offline mode is on.
    #[error("`{what}` is not in the cache `{}`, and offline mode is on", cache.display())]
    Offline {
        /// The repository, file or URL.
        what: String,
        /// The cache folder.
        cache: PathBuf,
    },
    /// The length or checksum of a download is wrong.
    #[error("The download of `{file}` is damaged: {message}")]
    Damaged {
        /// The file or URL that was downloaded.
        file: String,
        /// How the download differs from its description.
        message: String,
    },
    /// A file to upload could not be read.
    #[error("Cannot read `{path}`")]
    Unreadable {
        /// The path of the file.
        path: String,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
    /// A cache file could not be read or written.
    #[error("Cannot write `{path}` to the hub cache")]
    Io {
        /// The path of the file.
        path: String,
        /// The underlying error.
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
}

impl Diagnose for Error {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Status { status: 401 | 403, .. } => {
                "Set `HF_TOKEN` to a token with read access (write access to push), and accept the repository's terms on the hub"
            }
            Self::Status { status: 404, .. } => {
                "Check the spelling of the name and the revision; private repositories need `HF_TOKEN`"
            }
            Self::Status { status: 429, .. } => "The hub's rate limit was reached; wait, or set `HF_TOKEN`",
            Self::Status { .. } | Self::Unreadable { .. } => return Vec::new(),
            Self::Offline { .. } => {
                "Run once without `HF_HUB_OFFLINE`, or copy the cache folder from a machine that has it"
            }
            Self::Connection { .. } => {
                "Check the network, `HF_ENDPOINT` and the proxy settings; use cached files with `HF_HUB_OFFLINE=1`"
            }
            Self::Damaged { .. } => "Run again to restart the download",
            Self::Io { .. } => {
                "Check free space and permissions of the cache folder, or move it with `HF_HOME`"
            }
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
        let converted = Self::new(ModelErrorKind::Configuration, message);
        error.hints().into_iter().fold(converted, Self::hint)
    }
}
