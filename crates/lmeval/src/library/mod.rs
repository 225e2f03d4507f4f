//! Installed task libraries: downloading, unpacking, selecting and deleting them.
//!
//! A library is the `lm_eval/tasks` folder of a released package. Archives and folders are untrusted: `entry`
//! rejects unsafe names, `target` writes regular files below one folder within limits, and `home` makes a library
//! visible only when it is complete.

mod archive;
mod entry;
mod folder;
mod home;
mod pip;
mod pull;
mod target;
#[cfg(test)]
mod tests;
mod version;

pub use home::{Home, Installed, cache_folder};
pub use pull::{Outcome, Pull};

/// The folder of installed task libraries; `lm-eval` in the user's data directory by default.
const LM_EVAL_HOME: &str = "LM_EVAL_HOME";
