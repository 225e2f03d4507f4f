//! A tokenized context and continuation.

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::strings;

use crate::tokenizer::Encoder;

/// A tokenized context and continuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Context followed by continuation.
    pub(crate) tokens: Vec<u32>,
    /// How many of them belong to the context.
    pub(crate) context: usize,
}

/// Splits the tokens of a context and its continuation, encoded as one string, at the end of the context.
///
/// Trailing whitespace of the context belongs to the continuation. An empty context is replaced by the prefix
/// token.
pub(crate) async fn cut_pair(encoder: &Encoder, context: &str, tokens: Vec<u32>) -> Result<Pair, ModelError> {
    let trimmed = strings::rstrip(context);
    if !context.is_empty() {
        let prompt = encoder.encode_context(trimmed).await?;
        if !prompt.is_empty() {
            // Reference: the context's own tokens are sent, even if its end merges with the continuation.
            let continuation = tokens.get(prompt.len()..).unwrap_or_default();
            return Ok(Pair { tokens: [&prompt, continuation].concat(), context: prompt.len() });
        }
    }
    let Some(&first) = tokens.first() else {
        return Err(ModelError::new(
            ModelErrorKind::Request,
            "There is nothing to score: the continuation has no tokens",
        ));
    };
    let prefix = encoder.prefix()?;
    if first == prefix {
        return Ok(Pair { tokens, context: 1 });
    }
    Ok(Pair { tokens: [vec![prefix], tokens].concat(), context: 1 })
}
