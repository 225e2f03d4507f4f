//! The host with real interpreters.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it found"
)]

mod calls;
mod datasets;
mod faults;
mod folders;
mod library;
mod speed;
mod support;
mod values;
