//! Any bytes parse as a server's answer or are an error, for every kind of server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lmeval_models::fuzz_answer(bytes));
