//! Any bytes are rows of JSON or an error.
#![no_main]

mod data;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| data::read("json", bytes));
