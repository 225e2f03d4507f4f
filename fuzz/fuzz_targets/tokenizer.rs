//! Any bytes load as a tokenizer or are an error, and a tokenizer encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_tokenizers::HuggingFaceTokenizer;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("the disk has space");
    std::fs::write(folder.path().join("tokenizer.json"), bytes).expect("the disk has space");
    let Ok(tokenizer) = HuggingFaceTokenizer::from_folder(folder.path()) else { return };
    if let Ok(tokens) = tokenizer.encode("Hello wörld\n 12", true) {
        let _ = tokenizer.decode(&tokens);
    }
});
