//! Tokenization of prompts for servers, with one fixed rule for special tokens.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use lmeval_core::{ModelError, ModelErrorKind, TokenEnds};
use lmeval_tokenizers::{HuggingFaceTokenizer, TiktokenTokenizer};
use rayon::prelude::*;

use super::remote::RemoteTokenizer;

/// Cache size in contexts: enough for the documents whose options are in flight at once.
const CACHED_CONTEXTS: usize = 64;
/// Encoding more bytes than this is parallelized.
const PARALLEL_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) enum Tokenizer {
    HuggingFace(Box<HuggingFaceTokenizer>),
    Tiktoken(TiktokenTokenizer),
    Remote(Box<RemoteTokenizer>),
}

/// A tokenizer with a model's rules for special tokens.
#[derive(Debug)]
pub(crate) struct Encoder {
    tokenizer: Tokenizer,
    /// For the model's identity.
    name: String,
    add_special_tokens: bool,
    prefix: Option<u32>,
    /// The rules of `hf` for special tokens, in place of the fixed one.
    like_hf: Option<LikeHf>,
    recent: Mutex<VecDeque<CachedContext>>,
}

/// How `hf` adds special tokens.
#[derive(Debug)]
struct LikeHf {
    /// `add_bos_token`; without it, the tokenizer decides.
    add_bos: Option<bool>,
    /// A string that begins with this gets no second one.
    begin: Option<String>,
}

/// A string and its tokens.
type CachedContext = (Box<str>, Arc<[u32]>);

impl Encoder {
    pub(crate) fn new(
        tokenizer: Tokenizer,
        name: String,
        add_special_tokens: bool,
        custom_prefix: Option<u32>,
    ) -> Self {
        let own = || match &tokenizer {
            Tokenizer::HuggingFace(tokenizer) => {
                let id = |name| tokenizer.special_token(name).and_then(|token| token.id);
                id("bos_token").or_else(|| id("eos_token"))
            }
            Tokenizer::Tiktoken(tokenizer) => Some(tokenizer.end_of_text().0),
            // Reference: id 0 is treated as missing.
            Tokenizer::Remote(tokenizer) => tokenizer.begin.filter(|id| *id != 0).or(tokenizer.end),
        };
        let prefix = custom_prefix.or_else(own);
        Self { tokenizer, name, add_special_tokens, prefix, like_hf: None, recent: Mutex::default() }
    }

    /// Adds special tokens as `hf` does: as the tokenizer does by default, or `bos_token` alone if that is asked for, and
    /// never a second one.
    pub(crate) fn like_hf(mut self, add_bos: Option<bool>) -> Result<Self, ModelError> {
        if let Tokenizer::HuggingFace(tokenizer) = &self.tokenizer {
            let begin = self.prefix.map(|token| tokenizer.decode(&[token])).transpose()?;
            self.like_hf = Some(LikeHf { add_bos, begin: begin.filter(|begin| !begin.is_empty()) });
        }
        Ok(self)
    }

    /// Tokenizes a string that follows an empty context, if that differs from any other one.
    pub(crate) fn encode_after_nothing(&self, text: &str) -> Option<Result<Vec<u32>, ModelError>> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) if self.like_hf.is_some() => {
                Some(tokenizer.encode(text, false))
            }
            _ => None,
        }
    }

    /// Tokenizes a string.
    pub(crate) async fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        match &self.tokenizer {
            Tokenizer::Remote(tokenizer) => tokenizer.encode(text).await,
            _ => self.encode_local(text),
        }
    }

    /// Tokenizes the rest of a prompt, without special tokens; `None` if the tokenizer is not local.
    pub(crate) fn encode_rest(&self, text: &str) -> Option<Vec<u32>> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.encode(text, false).ok(),
            Tokenizer::Tiktoken(tokenizer) => Some(tokenizer.encode(text)),
            Tokenizer::Remote(_) => None,
        }
    }

    /// The text of generated tokens, without special ones; `None` if the tokenizer is not a local one of the Hugging Face format.
    pub(crate) fn decode_local(&self, tokens: &[u32]) -> Option<String> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.decode_plain(tokens).ok(),
            Tokenizer::Tiktoken(_) | Tokenizer::Remote(_) => None,
        }
    }

    /// Where that text ends after each token.
    pub(crate) fn ends(&self, tokens: &[u32]) -> Option<TokenEnds> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.ends(tokens).ok(),
            Tokenizer::Tiktoken(_) | Tokenizer::Remote(_) => None,
        }
    }

    /// Tokenizes a string that is likely to recur soon, through a cache.
    pub(crate) async fn encode_context(&self, text: &str) -> Result<Arc<[u32]>, ModelError> {
        if let Some(tokens) = self.cached(text) {
            return Ok(tokens);
        }
        let tokens: Arc<[u32]> = self.encode(text).await?.into();
        if let Ok(mut recent) = self.recent.lock() {
            recent.truncate(CACHED_CONTEXTS - 1);
            recent.push_front((text.into(), Arc::clone(&tokens)));
        }
        Ok(tokens)
    }

    fn cached(&self, text: &str) -> Option<Arc<[u32]>> {
        let recent = self.recent.lock().ok()?;
        recent.iter().find(|(known, _)| known.as_ref() == text).map(|(_, tokens)| Arc::clone(tokens))
    }

    /// Tokenizes several strings.
    pub(crate) async fn encode_all(&self, texts: &[&str]) -> Vec<Result<Vec<u32>, ModelError>> {
        if let Tokenizer::Remote(tokenizer) = &self.tokenizer {
            let mut all = Vec::with_capacity(texts.len());
            for text in texts {
                all.push(tokenizer.encode(text).await);
            }
            return all;
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if texts.len() > 1 && bytes > PARALLEL_BYTES {
            texts.par_iter().map(|text| self.encode_local(text)).collect()
        } else {
            texts.iter().map(|text| self.encode_local(text)).collect()
        }
    }

    fn encode_local(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => match &self.like_hf {
                Some(rules) => rules.encode(tokenizer, text),
                None => tokenizer.encode(text, self.add_special_tokens),
            },
            Tokenizer::Tiktoken(tokenizer) => Ok(tokenizer.encode(text)),
            Tokenizer::Remote(_) => Err(ModelError::new(
                ModelErrorKind::Request,
                "A remote tokenizer cannot be used synchronously",
            )),
        }
    }

    /// Detokenizes, including special tokens.
    pub(crate) async fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.decode(tokens),
            Tokenizer::Tiktoken(tokenizer) => tokenizer.decode(tokens),
            Tokenizer::Remote(tokenizer) => tokenizer.decode(tokens).await,
        }
    }

    /// The token that precedes an empty context.
    pub(crate) fn prefix(&self) -> Result<u32, ModelError> {
        self.prefix.ok_or_else(|| {
            let message = format!("The tokenizer `{}` has neither a BOS nor an EOS token", self.name);
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Set the token that precedes an empty context with `custom_prefix_token_id=<id>`")
        })
    }

    /// The EOS token as a string.
    pub(crate) fn end_of_text(&self) -> Option<&str> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.special_token("eos_token").map(|token| token.text),
            Tokenizer::Tiktoken(tokenizer) => Some(tokenizer.end_of_text().1),
            Tokenizer::Remote(tokenizer) => tokenizer.end_text(),
        }
    }

    /// Describes the tokenizer in the model's identity.
    pub(crate) fn describe(&self) -> String {
        match &self.tokenizer {
            Tokenizer::HuggingFace(_) => format!("huggingface {}", self.name),
            Tokenizer::Tiktoken(tokenizer) => format!("tiktoken {}", tokenizer.name()),
            Tokenizer::Remote(tokenizer) => format!("remote {}", tokenizer.name()),
        }
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
}

impl LikeHf {
    fn encode(&self, tokenizer: &HuggingFaceTokenizer, text: &str) -> Result<Vec<u32>, ModelError> {
        let begins = self.begin.as_deref().is_some_and(|begin| text.starts_with(begin));
        let special = !begins && self.add_bos.unwrap_or(true);
        if !special || self.add_bos != Some(true) {
            return tokenizer.encode(text, special);
        }
        let mut tokens = tokenizer.encode(text, false)?;
        let begin = tokenizer.special_token("bos_token").and_then(|token| token.id);
        tokens.splice(..0, begin);
        Ok(tokens)
    }
}
