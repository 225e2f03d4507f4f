//! Files and tables as other programs see them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod configs;
mod files;
mod readers;
mod reference;
mod support;
mod table;
mod zones;
