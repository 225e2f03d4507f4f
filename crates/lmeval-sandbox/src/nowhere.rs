//! Systems without the limits of processes that Linux and macOS have: nothing is run.

use std::convert::Infallible;
use std::ffi::OsStr;

use crate::error::Error;
use crate::program::{Outcome, Program};

/// Refuses.
pub fn run(_: &Program, _: &[&OsStr]) -> Result<Outcome, Error> {
    Err(Error::System)
}

/// Refuses.
pub fn enter(_: &str) -> Result<Infallible, Error> {
    Err(Error::System)
}
