//! Tests of the library through its public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod documentation;
mod examples;
mod registry;
