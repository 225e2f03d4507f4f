//! Claims as files: what users and other crates see of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod expect;
mod recipes;
mod rows;
mod suites;
