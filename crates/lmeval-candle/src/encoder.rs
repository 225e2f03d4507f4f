//! Tokenization of prompts and continuations, following the reference's `hf` model.

use std::path::Path;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::strings;
use lmeval_tokenizers::HuggingFaceTokenizer;

use crate::engine::ScoreRequest;

/// A tokenizer with the special-token settings of a model.
#[derive(Debug)]
pub(crate) struct PromptEncoder {
    tokenizer: HuggingFaceTokenizer,
    /// `add_bos_token`; without it, the tokenizer decides.
    add_bos: Option<bool>,
    /// The context of requests without one.
    prefix: Option<u32>,
    /// The prefix token decoded. A prompt that begins with it gets no second one.
    prefix_text: Option<String>,
}

impl PromptEncoder {
    /// Uses `own`, or else reads the tokenizer of a folder.
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

    /// The underlying tokenizer.
    pub(crate) fn tokenizer(&self) -> &HuggingFaceTokenizer {
        &self.tokenizer
    }

    /// The token before a sequence without context.
    pub(crate) fn prefix(&self) -> Result<u32, ModelError> {
        self.prefix.ok_or_else(|| {
            ModelError::new(
                ModelErrorKind::Configuration,
                "The tokenizer has neither a `bos_token` nor an `eos_token`",
            )
            .hint("Set the token for requests without context with `prefix_token_id=<id>`")
        })
    }

    /// The `eos_token`: its id and content.
    pub(crate) fn eos(&self) -> Option<(u32, &str)> {
        let token = self.tokenizer.special_token("eos_token")?;
        Some((token.id?, token.text))
    }

    /// Encodes a string for scoring, with special tokens.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let begins = self.prefix_text.as_deref().is_some_and(|prefix| text.starts_with(prefix));
        self.encode_with(text, !begins && self.add_bos.unwrap_or(true))
    }

    /// Encodes a prompt for generation, with special tokens.
    pub(crate) fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        // Reference: for generation this is `bos_token`, whatever the prefix token is.
        let begin = self.tokenizer.special_token("bos_token").map(|token| token.text);
        let begins = begin.is_some_and(|begin| text.starts_with(begin));
        self.encode_with(text, !begins && self.add_bos.unwrap_or(true))
    }

    fn encode_with(&self, text: &str, special: bool) -> Result<Vec<u32>, ModelError> {
        if !special || self.add_bos != Some(true) {
            return self.tokenizer.encode(text, special);
        }
        // Reference: with `add_bos_token=True`, the tokenizer adds `bos_token` and no other special token.
        let mut tokens = self.tokenizer.encode(text, false)?;
        let begin = self.tokenizer.special_token("bos_token").and_then(|token| token.id);
        tokens.splice(..0, begin);
        Ok(tokens)
    }

    /// Encodes a context and its continuation, truncated on the left to `max_length + 1` tokens.
    pub(crate) fn pair(
        &self,
        context: &str,
        continuation: &str,
        max_length: usize,
    ) -> Result<ScoreRequest, ModelError> {
        let (context, continuation) = self.split(context, continuation)?;
        check_continuation(&continuation, max_length)?;
        let scored = continuation.len();
        let mut tokens = context;
        tokens.extend(continuation);
        let surplus = tokens.len().saturating_sub(max_length + 1);
        tokens.drain(..surplus);
        Ok(ScoreRequest { tokens, scored, source: 0 })
    }

    /// Encodes a context as the source of an encoder, truncated on the left to `max_length` tokens, and its continuation as
    /// what a decoder returns that begins with the token `start`.
    pub(crate) fn source_and_target(
        &self,
        context: &str,
        continuation: &str,
        start: u32,
        max_length: usize,
    ) -> Result<ScoreRequest, ModelError> {
        let (source, target) = if context.is_empty() {
            self.split(context, continuation)?
        } else {
            let stripped = strings::rstrip(context);
            // Reference: the two are encoded on their own, with the spaces between them before the second.
            let target = format!("{}{continuation}", &context[stripped.len()..]);
            (self.encode(stripped)?, self.tokenizer.encode(&target, false)?)
        };
        decoder_request(source, start, target, max_length)
    }

    /// Encodes a prompt as the source of an encoder, with the special tokens of the tokenizer.
    pub(crate) fn encode_source(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        self.tokenizer.encode(text, true)
    }

    fn split(&self, context: &str, continuation: &str) -> Result<(Vec<u32>, Vec<u32>), ModelError> {
        if !context.is_empty() {
            let stripped = strings::rstrip(context);
            let whole = self.encode(&format!("{context}{continuation}"))?;
            let known = self.encode(stripped)?;
            if !known.is_empty() {
                // Reference: the split is after the context's own tokens, even if its end merges with the continuation.
                let rest = whole.get(known.len()..).unwrap_or_default().to_vec();
                return Ok((known, rest));
            }
            // A context of whitespace is treated as empty.
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

/// A request for a decoder, whose first token `start` stands for the target shifted by one.
pub(crate) fn decoder_request(
    mut source: Vec<u32>,
    start: u32,
    target: Vec<u32>,
    max_length: usize,
) -> Result<ScoreRequest, ModelError> {
    check_continuation(&target, max_length)?;
    if source.is_empty() {
        return Err(request("The context has no tokens"));
    }
    source.drain(..source.len().saturating_sub(max_length));
    let (count, scored) = (source.len(), target.len());
    let tokens = [source, vec![start], target].concat();
    Ok(ScoreRequest { tokens, scored, source: count })
}

/// Refuses a continuation that cannot be scored.
fn check_continuation(continuation: &[u32], max_length: usize) -> Result<(), ModelError> {
    if continuation.is_empty() {
        return Err(request("Nothing to score: the continuation has no tokens"));
    }
    if continuation.len() > max_length {
        return Err(request(format!(
            "The continuation has {} tokens, but the model's maximum length is {max_length}",
            continuation.len()
        )));
    }
    Ok(())
}

/// An error of a single request.
pub(crate) fn request(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Request, message)
}
