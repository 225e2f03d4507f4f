//! Any bytes load as GGUF weights or are an error.
#![no_main]

mod weights;

use lmeval_candle::Gguf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weights::load(bytes, Gguf::open));
