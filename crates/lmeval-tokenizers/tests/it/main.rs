//! Tests of the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folder;
mod hub;
mod mutations;
mod vocabularies;

/// A small byte-level tokenizer with a chat template.
const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
