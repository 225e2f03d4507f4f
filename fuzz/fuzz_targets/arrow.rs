//! Any bytes are rows of Arrow or an error.
#![no_main]

mod data;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| data::read("arrow", bytes));
