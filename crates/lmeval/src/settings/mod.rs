//! What a run is asked to do: partial settings from flags, a file, the environment and a Python program, combined once.
//!
//! [`Options`] is the one list of settings: a field there is a flag, a key of settings files and an argument of the
//! Python package. [`RunSettings`] is what all layers come to.

mod config_file;
mod dict_option;
mod kinds;
mod layer;
mod no_effect;
mod options;
#[cfg(test)]
mod precedence;
mod record;
mod resolve;
mod samples;
mod seed;

pub(crate) use config_file::ConfigFile;
pub(crate) use kinds::{Compat, truth};
pub(crate) use options::{Format, LibraryArgs, Options, ProgressMode, PythonArgs};
pub(crate) use record::record_line;
pub(crate) use resolve::{RunSettings, dialect};
pub(crate) use samples::{parse as parse_samples, resolve as resolve_samples};
