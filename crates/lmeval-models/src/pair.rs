//! A context and its continuation as tokens.

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_pycompat::strings;

use crate::tokenizer::Encoder;

/// The tokens of a context and of its continuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Context and continuation, one after the other.
    pub(crate) tokens: Vec<u32>,
    /// How many of them are the context's.
    pub(crate) context: usize,
}

/// Cuts the tokens of a context and its continuation, which are encoded as one text, where the context alone ends.
///
/// Blanks at the end of the context belong to the continuation. A context without tokens is replaced by the token that
/// begins a text.
pub(crate) async fn cut_pair(encoder: &Encoder, context: &str, tokens: Vec<u32>) -> Result<Pair, ModelError> {
    let kept = strings::rstrip(context);
    if !context.is_empty() {
        let known = encoder.encode_context(kept).await?;
        if !known.is_empty() {
            // Reference: the context's own tokens are sent, also where its end merges with what follows.
            let continuation = tokens.get(known.len()..).unwrap_or_default();
            return Ok(Pair { tokens: [&known, continuation].concat(), context: known.len() });
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
