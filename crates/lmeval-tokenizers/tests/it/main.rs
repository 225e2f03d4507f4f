//! Tests of the public interface.

mod folder;
mod hub;
mod mutations;

/// A small byte-level tokenizer with a chat template.
const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tokenizer");
