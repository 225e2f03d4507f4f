//! Any bytes parse as Parquet rows or are an error.
#![no_main]

mod data;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| data::read("parquet", bytes));
