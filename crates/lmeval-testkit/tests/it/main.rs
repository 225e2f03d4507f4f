//! Checks of the repository as a whole.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod layers;
