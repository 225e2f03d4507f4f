//! Runs from tasks to results.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod early_answers;
mod failures;
mod judges;
mod old_caches;
mod panics;
mod running_scores;
mod stream;
