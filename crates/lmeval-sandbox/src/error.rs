//! Errors before a program runs.

use std::io;
use std::path::PathBuf;

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter does not start.
    #[error("Cannot start Python `{}`", python.display())]
    Interpreter {
        /// The path of the interpreter.
        python: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system has no way to limit programs.
    #[error("Model-generated programs only run on Linux and macOS; on Windows, use WSL")]
    Unsupported,
    /// The description of a program or an interpreter is malformed.
    #[error("Malformed {0}")]
    Malformed(String),
    /// The temporary folder cannot be created.
    #[error("Cannot create a temporary folder for the sandbox")]
    Folder(#[source] io::Error),
    /// The child process cannot be started.
    #[error("Cannot start the sandbox process")]
    Start(#[source] io::Error),
    /// The child process ended before it ran anything.
    #[error("The sandbox process ended before it ran anything: {0}")]
    Setup(String),
}
