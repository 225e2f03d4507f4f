//! The journal as its users see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod full_disk;
mod kill;
mod opening;
mod recovery;
mod support;
mod tools;
