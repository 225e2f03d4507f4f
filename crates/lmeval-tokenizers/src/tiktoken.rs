//! OpenAI's tokenizers.

use std::fmt;

use lmeval_core::{ModelError, ModelErrorKind};
use tiktoken_rs::tokenizer::{Tokenizer as Encoding, get_tokenizer};
use tiktoken_rs::{CoreBPE, bpe_for_tokenizer};

/// The end-of-text token of every encoding.
const END_OF_TEXT: &str = "<|endoftext|>";

/// The tokenizer of an OpenAI model.
///
/// Special tokens in the input are encoded as ordinary text.
#[derive(Clone)]
pub struct TiktokenTokenizer {
    encoding: Encoding,
    vocabulary: &'static CoreBPE,
    end_of_text: u32,
}

impl fmt::Debug for TiktokenTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiktokenTokenizer").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

impl TiktokenTokenizer {
    /// Loads the tokenizer of a model, such as `gpt-4o`.
    pub fn for_model(model: &str) -> Result<Self, ModelError> {
        let encoding = get_tokenizer(model).ok_or_else(|| {
            let message = format!("No OpenAI tokenizer is known for the model `{model}`");
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Known models include `babbage-002`, `davinci-002` and `gpt-4o`")
                .hint(
                    "For other models, set `tokenizer_backend=huggingface` and `tokenizer=<name or folder>`",
                )
        })?;
        let broken = |error: String| {
            let message = format!("Cannot load the tokenizer of `{model}`: {error}");
            ModelError::new(ModelErrorKind::Configuration, message)
        };
        let vocabulary = bpe_for_tokenizer(encoding).map_err(|error| broken(error.to_string()))?;
        let end_of_text = vocabulary.encode_with_special_tokens(END_OF_TEXT);
        let &[end_of_text] = end_of_text.as_slice() else {
            return Err(broken("it has no end-of-text token".into()));
        };
        Ok(Self { encoding, vocabulary, end_of_text })
    }

    /// The name of the encoding, such as `cl100k_base`.
    pub fn name(&self) -> &'static str {
        match self.encoding {
            Encoding::O200kHarmony => "o200k_harmony",
            Encoding::O200kBase => "o200k_base",
            Encoding::Cl100kBase => "cl100k_base",
            Encoding::P50kBase => "p50k_base",
            Encoding::R50kBase => "r50k_base",
            Encoding::P50kEdit => "p50k_edit",
            Encoding::Gpt2 => "gpt2",
        }
    }

    /// Encodes a string.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.vocabulary.encode_ordinary(text)
    }

    /// Decodes tokens. Invalid UTF-8 becomes replacement characters.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        let bytes = self.vocabulary.decode_bytes(tokens).map_err(|error| {
            ModelError::new(ModelErrorKind::Request, format!("Cannot decode the tokens: {error}"))
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The id and content of the end-of-text token.
    pub fn end_of_text(&self) -> (u32, &'static str) {
        (self.end_of_text, END_OF_TEXT)
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::Diagnose as _;

    use super::*;

    #[test]
    fn finds_the_encoding_of_a_model() {
        let name = |model: &str| TiktokenTokenizer::for_model(model).map(|tokenizer| tokenizer.name());
        assert_eq!(name("babbage-002").unwrap(), "cl100k_base");
        assert_eq!(name("davinci-002").unwrap(), "cl100k_base");
        assert_eq!(name("gpt-4o").unwrap(), "o200k_base");
        let error = name("my-model").unwrap_err();
        assert_eq!(error.to_string(), "No OpenAI tokenizer is known for the model `my-model`");
        assert!(!error.hints().is_empty());
    }

    #[test]
    fn encodes_special_tokens_as_ordinary_text() {
        let tokenizer = TiktokenTokenizer::for_model("davinci-002").unwrap();
        assert_eq!(tokenizer.encode("hello world"), [15339, 1917]);
        assert_eq!(tokenizer.end_of_text(), (100257, "<|endoftext|>"));
        let tokens = tokenizer.encode("a<|endoftext|>b");
        assert!(!tokens.contains(&100257) && tokens.len() > 3);
        assert_eq!(tokenizer.decode(&tokens).unwrap(), "a<|endoftext|>b");
        assert_eq!(tokenizer.decode(&[100257]).unwrap(), "<|endoftext|>");
    }
}
