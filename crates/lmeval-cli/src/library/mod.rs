//! Installed task libraries: downloading, unpacking, selecting and deleting them.
//!
//! A library is the `lm_eval/tasks` folder of a released package. Archives and folders are untrusted: `entry`
//! rejects unsafe names, `target` writes regular files below one folder within limits, and `change` makes a library
//! visible only when it is complete.

mod archive;
mod change;
mod entry;
mod folder;
mod pip;
mod pull;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use change::Change;
pub(crate) use pull::{Installation, Pull};
