//! Tokenizers from `vocab.json` and `merges.txt`, which are sufficient for classes of byte-level words.

use std::path::Path;

use lmeval_pycompat::{Dict, Value};
use tokenizers::Tokenizer;
use tokenizers::models::bpe::BPE;

use crate::formats::Problem;
use crate::special::{SpecialTokens, read_object};

/// The vocabulary and the merges.
pub(crate) const FILES: [&str; 2] = ["vocab.json", "merges.txt"];
/// Tokens that older versions of `transformers` saved outside the vocabulary.
pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";

/// Builds a tokenizer from the vocabulary and the merges next to it.
pub(crate) fn build(folder: &Path, _: &[u8], special: &mut SpecialTokens) -> Result<Tokenizer, Problem> {
    if !special.class.is_some_and(|class| class.scheme.is_byte_level()) {
        let problem = format!("its tokenizer class cannot be built from it and `{}` alone", FILES[1]);
        return Err(Problem::Unsupported(problem));
    }
    let [vocabulary, merges] = FILES.map(|name| folder.join(name).to_string_lossy().into_owned());
    let model = BPE::from_file(&vocabulary, &merges).build();
    let tokenizer = Tokenizer::new(model.map_err(|error| Problem::Unsupported(error.to_string()))?);
    let is_known = |token: &str| {
        tokenizer.token_to_id(token).is_some() || special.added.iter().any(|known| known.content == token)
    };
    let added = if special.are_declared { Dict::new() } else { read_object(&folder.join(ADDED_TOKENS))? };
    if let Some(token) = added.keys().filter_map(Value::as_str).find(|token| !is_known(token)) {
        let problem = format!("it does not have the token `{token}` of `{ADDED_TOKENS}`");
        return Err(Problem::Unsupported(problem));
    }
    Ok(tokenizer)
}
