//! Any bytes are weights in GGUF or an error.
#![no_main]

mod weights;

use lmeval_candle::Gguf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weights::load(bytes, Gguf::open));
