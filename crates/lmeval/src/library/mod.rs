//! Task libraries on this machine: fetching, unpacking, choosing and deleting them.
//!
//! A library is the `lm_eval/tasks` folder of a released package. Archives and folders are untrusted: `entry`
//! refuses names that could lead out, `target` writes plain files below one folder within limits, and `home` lets
//! a library appear only when it is complete.

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

pub use home::{Home, Installed};
pub use pull::{Outcome, Pull};

/// The folder that holds installed task libraries; by default `lm-eval` in the user's data directory.
const LM_EVAL_HOME: &str = "LM_EVAL_HOME";
