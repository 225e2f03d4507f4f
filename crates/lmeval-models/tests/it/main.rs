//! Tests of the backends through their public API.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod api_errors;
mod api_recorded;
mod api_support;
mod api_transient;
mod dummy;
mod http_addresses;
mod http_errors;
mod http_limits;
mod http_retries;
mod http_silence;
mod http_strays;
mod http_support;
mod local;
mod ngram;
mod replay;
mod streaming;
mod tokenizer;
