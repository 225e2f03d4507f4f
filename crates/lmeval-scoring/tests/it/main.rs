//! Integration tests, mostly against recordings of the reference harness.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod filters;
mod filters_differential;
mod filters_limits;
mod registry;
mod scorer_steps;
mod scorers;
mod scorers_groups;
mod scorers_task_functions;
