//! Any bytes are frames of a worker or errors.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lmeval_host::fuzz_frames(bytes));
