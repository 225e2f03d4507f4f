//! Any bytes are weights in safetensors or an error.
#![no_main]

mod weights;

use lmeval_candle::Safetensors;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weights::load(bytes, |path| Safetensors::open(&[path.to_owned()])));
