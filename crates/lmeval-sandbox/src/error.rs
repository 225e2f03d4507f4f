//! What can go wrong before a program runs.

use std::io;
use std::path::PathBuf;

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter cannot be started.
    #[error("Cannot start Python `{}`", python.display())]
    Interpreter {
        /// The interpreter.
        python: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The system cannot limit what a program does.
    #[error("Programs that a model wrote run on Linux and macOS alone; on Windows, use WSL")]
    System,
    /// What was to describe a program or an interpreter does not.
    #[error("Not understood: {0}")]
    Malformed(String),
    /// No folder for the program.
    #[error("Cannot make a temporary folder for the program")]
    Folder(#[source] io::Error),
    /// The process for the program cannot be started.
    #[error("Cannot start a process for the program")]
    Start(#[source] io::Error),
    /// The process ended before the program began.
    #[error("The process for the program ended before it began: {0}")]
    Setup(String),
}
