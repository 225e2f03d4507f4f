//! Any bytes parse as Arrow rows or are an error.
#![no_main]

mod data;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| data::read("arrow", bytes));
