//! Damaged tokenizers give an error or tokens, never a panic.

use std::path::Path;

use lmeval_testkit::mutate;
use lmeval_tokenizers::HuggingFaceTokenizer;

#[test]
fn damaged_tokenizers_do_not_panic() {
    let data = Path::new(crate::TOKENIZER);
    let folder = tempfile::tempdir().unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            fs_err::copy(data.join(file), folder.path().join(file)).unwrap();
        }
        let sample = fs_err::read(data.join(name)).unwrap();
        mutate(&[&sample], 250, |bytes| {
            fs_err::write(folder.path().join(name), bytes).unwrap();
            if let Ok(tokenizer) = HuggingFaceTokenizer::from_folder(folder.path())
                && let Ok(tokens) = tokenizer.encode("Hello wörld\n 12", true)
            {
                let _ = tokenizer.decode(&tokens);
            }
        });
    }
}
