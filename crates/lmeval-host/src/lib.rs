//! Python functions of tasks, run by worker processes.
//!
//! The engine does not link a Python interpreter. A [`PythonHost`] starts `python3` on the first call,
//! communicates with it over a separate socket, and implements the host traits: functions of prompts, scoring
//! functions, and filters.
//!
//! ```
//! use lmeval_host::{PythonHost, PythonOptions};
//!
//! // No process is started before the first call.
//! let host = PythonHost::new(PythonOptions::from_environment());
//! # drop(host);
//! ```

#![cfg_attr(not(unix), allow(dead_code, unreachable_code, reason = "no worker can be started"))]

mod caller;
mod class_task;
mod code;
mod embed;
mod error;
mod filters;
mod host;
mod interpreter;
#[cfg(unix)]
mod log;
mod message;
mod model;
mod old_cache;
mod options;
mod parent;
mod pool;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "no_process.rs"]
mod process;
mod progress;
mod protocol;
mod registered;
mod remote;
mod sampler;
mod scoring;
mod services;
mod socket;
mod tracker;
mod worker;

pub use caller::Caller;
pub use embed::{RAY_BOOT, ray_modules};
pub use host::PythonHost;
pub use interpreter::{active_environment, find_python};
pub use model::{PythonModel, PythonModelSettings, RegisteredModels};
pub use old_cache::{OldCache, OldCacheError};
pub use options::{Log, PythonOptions};
#[doc(hidden)]
pub use protocol::read_any as fuzz_frames;
pub use protocol::{decode_value, encode_value};
pub use remote::{
    CreateModel, PoolOptions, RunTls, Token, WorkerNotes, WorkerOptions, WorkerPool, WorkerTls, work_for_run,
};
pub use socket::Socket;
pub use tracker::{Tracked, TrackerError, Trackers};
