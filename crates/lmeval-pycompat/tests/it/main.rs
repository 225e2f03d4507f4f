//! Compares behaviour with recordings from CPython.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod json;
mod literal;
mod random;
mod repr;
mod strings;
mod vectors;
mod yaml;
mod yaml_fuzz;
mod yaml_hostile;
mod yaml_library;
mod yaml_typed;
