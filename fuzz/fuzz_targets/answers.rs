//! Any bytes are an answer of a server or an error, whichever kind of server it is.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lmeval_models::fuzz_answer(bytes));
