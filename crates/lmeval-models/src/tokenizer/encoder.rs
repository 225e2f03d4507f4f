//! A tokenizer as servers' prompts need it: always with the same rule for special tokens.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_tokenizers::{HuggingFaceTokenizer, TiktokenTokenizer};
use rayon::prelude::*;

use super::remote::RemoteTokenizer;

/// How many contexts are remembered: those of documents whose options are under way at once.
const REMEMBERED: usize = 64;
/// How many bytes of text are worth being shared among cores.
const WORTH_SHARING: usize = 64 * 1024;

/// One of the kinds of tokenizers.
#[derive(Debug)]
pub(crate) enum Tokenizer {
    HuggingFace(Box<HuggingFaceTokenizer>),
    Tiktoken(TiktokenTokenizer),
    Remote(Box<RemoteTokenizer>),
}

/// A tokenizer with the rules of a model.
#[derive(Debug)]
pub(crate) struct Encoder {
    tokenizer: Tokenizer,
    /// The name of the tokenizer, for the identity of a model.
    name: String,
    add_special_tokens: bool,
    prefix: Option<u32>,
    recent: Mutex<VecDeque<Remembered>>,
}

/// A text and its tokens.
type Remembered = (Box<str>, Arc<[u32]>);

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
            // Reference: the number 0 counts as missing.
            Tokenizer::Remote(tokenizer) => tokenizer.begin.filter(|id| *id != 0).or(tokenizer.end),
        };
        let prefix = custom_prefix.or_else(own);
        Self { tokenizer, name, add_special_tokens, prefix, recent: Mutex::default() }
    }

    /// The tokens of a text.
    pub(crate) async fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        match &self.tokenizer {
            Tokenizer::Remote(tokenizer) => tokenizer.encode(text).await,
            _ => self.encode_here(text),
        }
    }

    /// The tokens of a text that is likely to come again soon.
    pub(crate) async fn encode_context(&self, text: &str) -> Result<Arc<[u32]>, ModelError> {
        if let Some(tokens) = self.remembered(text) {
            return Ok(tokens);
        }
        let tokens: Arc<[u32]> = self.encode(text).await?.into();
        if let Ok(mut recent) = self.recent.lock() {
            recent.truncate(REMEMBERED - 1);
            recent.push_front((text.into(), Arc::clone(&tokens)));
        }
        Ok(tokens)
    }

    fn remembered(&self, text: &str) -> Option<Arc<[u32]>> {
        let recent = self.recent.lock().ok()?;
        recent.iter().find(|(known, _)| known.as_ref() == text).map(|(_, tokens)| Arc::clone(tokens))
    }

    /// The tokens of several texts.
    pub(crate) async fn encode_all(&self, texts: &[&str]) -> Vec<Result<Vec<u32>, ModelError>> {
        if let Tokenizer::Remote(tokenizer) = &self.tokenizer {
            let mut all = Vec::with_capacity(texts.len());
            for text in texts {
                all.push(tokenizer.encode(text).await);
            }
            return all;
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if texts.len() > 1 && bytes > WORTH_SHARING {
            texts.par_iter().map(|text| self.encode_here(text)).collect()
        } else {
            texts.iter().map(|text| self.encode_here(text)).collect()
        }
    }

    fn encode_here(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.encode(text, self.add_special_tokens),
            Tokenizer::Tiktoken(tokenizer) => Ok(tokenizer.encode(text)),
            Tokenizer::Remote(_) => {
                Err(ModelError::new(ModelErrorKind::Request, "A server's tokenizer answers only when asked"))
            }
        }
    }

    /// The text of tokens, special ones included.
    pub(crate) async fn decode(&self, tokens: &[u32]) -> Result<String, ModelError> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.decode(tokens),
            Tokenizer::Tiktoken(tokenizer) => tokenizer.decode(tokens),
            Tokenizer::Remote(tokenizer) => tokenizer.decode(tokens).await,
        }
    }

    /// The token that stands before a text without context.
    pub(crate) fn prefix(&self) -> Result<u32, ModelError> {
        self.prefix.ok_or_else(|| {
            let message = format!("The tokenizer `{}` has no token that begins or ends a text", self.name);
            ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Choose the token before texts without context with `custom_prefix_token_id=<number>`")
        })
    }

    /// The string that ends a text.
    pub(crate) fn end_of_text(&self) -> Option<&str> {
        match &self.tokenizer {
            Tokenizer::HuggingFace(tokenizer) => tokenizer.special_token("eos_token").map(|token| token.text),
            Tokenizer::Tiktoken(tokenizer) => Some(tokenizer.end_of_text().1),
            Tokenizer::Remote(tokenizer) => tokenizer.end_text(),
        }
    }

    /// Which tokenizer this is, for the identity of a model.
    pub(crate) fn describe(&self) -> String {
        match &self.tokenizer {
            Tokenizer::HuggingFace(_) => format!("huggingface {}", self.name),
            Tokenizer::Tiktoken(tokenizer) => format!("tiktoken {}", tokenizer.name()),
            Tokenizer::Remote(tokenizer) => format!("remote {}", tokenizer.name()),
        }
    }

    /// The kind of tokenizer.
    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
}
