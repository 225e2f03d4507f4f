//! Any bytes parse as worker frames or are errors.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lmeval_host::fuzz_frames(bytes));
