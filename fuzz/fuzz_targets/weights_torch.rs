//! Any bytes load as torch weights or are an error.
#![no_main]

mod weights;

use lmeval_candle::TorchFiles;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weights::load(bytes, |path| TorchFiles::open(&[path.to_owned()])));
