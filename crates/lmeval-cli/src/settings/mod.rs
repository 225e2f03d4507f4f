//! The settings of a run, combined once from the flags, the environment, a settings file, a Python caller.
//!
//! [`Options`] lists all settings: each field is a flag, a key of settings files and an argument of the Python
//! package. [`RunSettings`] is the resolved result.

mod answers;
mod config_file;
mod dict_option;
mod documents;
mod engine;
mod expect;
mod judges;
mod kinds;
mod layer;
mod locked;
mod model;
mod no_effect;
mod options;
mod output;
#[cfg(test)]
mod precedence;
mod prompts;
#[cfg(test)]
mod python_package;
mod recipe;
mod record;
mod resolve;
mod samples;
mod scoring;
mod seed;
mod shard;
mod trackers;
mod workers;

pub(crate) use config_file::ConfigFile;
pub(crate) use dict_option::from_text as parse_pairs;
pub(crate) use expect::over;
pub(crate) use judges::{JudgeBinding, JudgeSetting};
pub(crate) use kinds::{Budget, Compat, Reductions, TaskNames, truth};
pub(crate) use options::{Choices, Format, LibraryArgs, Options, ProgressMode, PythonArgs};
pub(crate) use record::record_line;
pub(crate) use resolve::{RunSettings, dialect};
pub(crate) use samples::{parse as parse_samples, resolve as resolve_samples};
pub(crate) use shard::ShardNumber;
pub(crate) use workers::{WorkerSettings, worker_setup};
