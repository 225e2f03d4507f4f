//! Task libraries on this machine: fetching, unpacking, choosing and deleting them.
//!
//! A library is the `lm_eval/tasks` folder of a released package. Archives and folders are untrusted: [`entry`]
//! refuses names that could lead out, [`target`] writes plain files below one folder within limits, and [`home`] lets
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

pub(crate) use home::{Home, Installed};
pub(crate) use pull::{Outcome, Pull};
