//! Any text is a tokenizer or an error, and what was made encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_tokenizers::HuggingFaceTokenizer;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("tokenizer.json"), bytes).expect("there is room");
    let Ok(tokenizer) = HuggingFaceTokenizer::from_folder(folder.path()) else { return };
    if let Ok(tokens) = tokenizer.encode("Hello wörld\n 12", true) {
        let _ = tokenizer.decode(&tokens);
    }
});
