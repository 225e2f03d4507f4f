//! The settings of a run, combined once from the flags, the environment, a settings file, a Python caller or
//! [`Evaluation`](crate::Evaluation).
//!
//! [`Options`] lists all settings: each field is a flag, a key of settings files and an argument of the Python
//! package. [`RunSettings`] is the resolved result.

mod config_file;
mod dict_option;
mod engine;
mod judges;
mod kinds;
mod layer;
mod no_effect;
mod options;
#[cfg(test)]
mod precedence;
mod record;
mod resolve;
mod roots;
mod samples;
mod seed;
mod shard;
mod trackers;
mod workers;

pub use config_file::ConfigFile;
pub use dict_option::from_text as parse_pairs;
pub use engine::python_options;
pub use judges::{JudgeBinding, JudgeSetting};
pub use kinds::{Compat, Count, Number, TaskNames, truth};
pub use options::{Choices, Format, LibraryArgs, Options, ProgressMode, PythonArgs};
pub use record::record_line;
pub use resolve::{RunSettings, dialect};
pub use samples::{parse as parse_samples, resolve as resolve_samples};
pub use shard::ShardNumber;
pub use trackers::TrackerSettings;
pub use workers::{WorkerSettings, worker_setup};
