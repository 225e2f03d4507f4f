//! Tests of the public API on real folders.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod documentation;
mod include;
mod index;
mod library;
mod library_names;
mod manager;
mod own_scorers;
mod prompt_dialects;
mod prompt_documents;
mod prompt_golden;
mod prompt_reference;
mod prompt_rules;
mod prompt_support;
mod scoring_golden;
mod scoring_keys;
mod scoring_reference;
mod scoring_support;
mod support;
mod validate;
