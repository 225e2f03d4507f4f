//! Python functions of tasks, run by worker processes.
//!
//! The engine links no interpreter. A [`PythonHost`] starts `python3` when the first function is called, speaks with it
//! over a pipe of its own, and implements what the other crates ask of a host: functions of prompts, scoring functions,
//! and filters.
//!
//! ```
//! use lmeval_host::{PythonHost, PythonOptions};
//!
//! // Nothing is started before the first call.
//! let host = PythonHost::new(PythonOptions::from_environment());
//! # drop(host);
//! ```

mod embed;
mod error;
mod filters;
mod host;
mod log;
mod message;
mod options;
mod pool;
mod protocol;
mod scoring;
mod worker;

pub use host::PythonHost;
pub use options::{Log, PythonOptions};
