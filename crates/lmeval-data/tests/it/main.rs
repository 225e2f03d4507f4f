//! Tests of the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod folder;
mod hub;
mod large;
mod mutations;
mod saved;
mod stored;
mod support;
mod vectors;
