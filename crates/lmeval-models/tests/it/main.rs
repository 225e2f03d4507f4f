//! Tests of the back ends through their public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod api_errors;
mod api_recorded;
mod api_slips;
mod api_support;
mod dummy;
mod http_addresses;
mod http_errors;
mod http_limits;
mod http_retries;
mod http_strays;
mod http_support;
mod local;
mod mutations;
mod ngram;
mod replay;
mod tokenizer;
