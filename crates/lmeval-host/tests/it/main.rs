//! The host with real interpreters.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it found"
)]

mod calls;
mod class_tasks;
mod datasets;
mod faults;
mod folders;
mod library;
mod models;
mod random;
mod registered;
mod samplers;
mod speed;
mod support;
mod values;
