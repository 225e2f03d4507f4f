//! Tests of the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod curve;
mod newest;
mod pool;
mod samples;
mod simulation;
mod vectors;
