//! Tests of the public interface of the journal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod full_disk;
mod kill;
mod merge;
mod opening;
mod recovery;
mod support;
mod tools;
