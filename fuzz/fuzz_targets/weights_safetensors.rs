//! Any bytes load as safetensors weights or are an error.
#![no_main]

mod weights;

use lmeval_candle::Safetensors;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weights::load(bytes, |path| Safetensors::open(&[path.to_owned()])));
