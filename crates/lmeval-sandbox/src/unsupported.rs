//! Systems without resource limits, where nothing runs.

use std::convert::Infallible;
use std::ffi::OsStr;

use crate::error::Error;
use crate::program::{Outcome, Program};

/// Always fails with [`Error::Unsupported`].
pub fn run(_: &Program, _: &[&OsStr]) -> Result<Outcome, Error> {
    Err(Error::Unsupported)
}

/// Always fails with [`Error::Unsupported`].
pub fn enter(_: &str) -> Result<Infallible, Error> {
    Err(Error::Unsupported)
}
