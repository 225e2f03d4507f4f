//! Any bytes load as a tokenizer in each format or are an error, and a tokenizer encodes and decodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmeval_tokenizers::HuggingFaceTokenizer;

fuzz_target!(|bytes: &[u8]| {
    for name in ["tokenizer.json", "tekken.json", "tokenizer.model"] {
        let folder = tempfile::tempdir().expect("the disk has space");
        std::fs::write(folder.path().join(name), bytes).expect("the disk has space");
        let Ok(tokenizer) = HuggingFaceTokenizer::from_folder(folder.path()) else { continue };
        if let Ok(tokens) = tokenizer.encode("Hello wörld\n 12", true) {
            let _ = tokenizer.decode(&tokens);
        }
    }
});
