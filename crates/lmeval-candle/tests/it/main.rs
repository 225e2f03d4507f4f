//! Tests of models in this process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architectures;
mod fixtures;
mod hub;
mod model;
