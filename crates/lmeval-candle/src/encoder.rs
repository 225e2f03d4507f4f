//! Texts as tokens, with the rules of the model `hf`.

use std::path::Path;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::strings;
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::engine::ScoreRequest;

/// A tokenizer with the rules of a model.
#[derive(Debug)]
pub(crate) struct Codec {
    tokenizer: HuggingFaceTokenizer,
    /// Whether special tokens are put around texts; as the tokenizer does it by itself without.
    add_bos: Option<bool>,
    prefix: Option<u32>,
    /// The text of the prefix token: a text that begins with it gets no other one.
    prefix_text: Option<String>,
}

impl Codec {
    /// The model's own tokenizer, else that of a folder.
    pub(crate) fn new(
        folder: &Path,
        own: Option<HuggingFaceTokenizer>,
        add_bos: Option<bool>,
        prefix: Option<u32>,
    ) -> Result<Self, ModelError> {
        let tokenizer = match own {
            Some(tokenizer) => tokenizer,
            None => HuggingFaceTokenizer::from_folder(folder)?,
        };
        let special = |name: &str| tokenizer.special_token(name).and_then(|token| token.id);
        let prefix = prefix.or_else(|| special("bos_token")).or_else(|| special("eos_token"));
        let prefix_text = prefix.map(|token| tokenizer.decode(&[token])).transpose()?;
        let prefix_text = prefix_text.filter(|text| !text.is_empty());
        Ok(Self { tokenizer, add_bos, prefix, prefix_text })
    }

    /// The tokenizer itself.
    pub(crate) fn tokenizer(&self) -> &HuggingFaceTokenizer {
        &self.tokenizer
    }

    /// The token that stands before a text without context.
    pub(crate) fn prefix(&self) -> Result<u32, ModelError> {
        self.prefix.ok_or_else(|| {
            ModelError::new(
                ModelErrorKind::Configuration,
                "The tokenizer has no token that begins or ends a text",
            )
            .hint("Choose the token before texts without context with `prefix_token_id=<number>`")
        })
    }

    /// The token that ends a text, and its text.
    pub(crate) fn end(&self) -> Option<(u32, &str)> {
        let token = self.tokenizer.special_token("eos_token")?;
        Some((token.id?, token.text))
    }

    /// The tokens of a text, with special ones as the model has them.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let begins = self.prefix_text.as_deref().is_some_and(|prefix| text.starts_with(prefix));
        self.encode_with(text, !begins && self.add_bos.unwrap_or(true))
    }

    /// The tokens of a text that is continued.
    pub(crate) fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        // Reference: here it is the token that begins texts, whatever the prefix is.
        let begin = self.tokenizer.special_token("bos_token").map(|token| token.text);
        let begins = begin.is_some_and(|begin| text.starts_with(begin));
        self.encode_with(text, !begins && self.add_bos.unwrap_or(true))
    }

    fn encode_with(&self, text: &str, special: bool) -> Result<Vec<u32>, ModelError> {
        if !special || self.add_bos != Some(true) {
            return self.tokenizer.encode(text, special);
        }
        // Reference: a tokenizer that is told to begin texts with a token does that and nothing else.
        let mut tokens = self.tokenizer.encode(text, false)?;
        let begin = self.tokenizer.special_token("bos_token").and_then(|token| token.id);
        tokens.splice(..0, begin);
        Ok(tokens)
    }

    /// A context and its continuation, of which the last `max_length + 1` tokens stay.
    pub(crate) fn pair(
        &self,
        context: &str,
        continuation: &str,
        max_length: usize,
    ) -> Result<ScoreRequest, ModelError> {
        let (context, continuation) = self.cut(context, continuation)?;
        if continuation.is_empty() {
            return Err(request("There is nothing to score: the continuation has no tokens"));
        }
        if continuation.len() > max_length {
            return Err(request(format!(
                "The continuation has {} tokens, and the model takes {max_length} at most",
                continuation.len()
            )));
        }
        let scored = continuation.len();
        let mut tokens = context;
        tokens.extend(continuation);
        let surplus = tokens.len().saturating_sub(max_length + 1);
        tokens.drain(..surplus);
        Ok(ScoreRequest { tokens, scored })
    }

    fn cut(&self, context: &str, continuation: &str) -> Result<(Vec<u32>, Vec<u32>), ModelError> {
        if !context.is_empty() {
            let kept = strings::rstrip(context);
            let whole = self.encode(&format!("{context}{continuation}"))?;
            let known = self.encode(kept)?;
            if !known.is_empty() {
                // Reference: the context's own tokens count, also where its end merges with what follows.
                let rest = whole.get(known.len()..).unwrap_or_default().to_vec();
                return Ok((known, rest));
            }
            // A context of blanks alone: nothing stands before the text.
            return Ok((vec![self.prefix()?], whole));
        }
        let mut tokens = self.tokenizer.encode(continuation, false)?;
        let prefix = self.prefix()?;
        if tokens.first() == Some(&prefix) {
            let rest = tokens.split_off(1);
            return Ok((tokens, rest));
        }
        Ok((vec![prefix], tokens))
    }
}

/// The error of a request.
pub(crate) fn request(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Request, message)
}
