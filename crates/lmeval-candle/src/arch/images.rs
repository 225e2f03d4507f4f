//! The language models of models that read images, for tasks of text alone.

use lmeval_pycompat::Dict;

use super::{Architecture, llama4};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Builds the language model of Llama 4.
pub(super) fn build_llama4(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    llama4::build(&text(config, weights, false)?, weights)
}

/// Prefixes of tensors that only other input than text needs.
const OTHERS: [&str; 1] = ["vision_model"];

/// The configuration of the language model. Marks the other tensors as not needed.
///
/// Reference: whether the head is tied is said at the top level, unlike all else. `tied` is the default.
fn text(config: &Config, weights: &Weights, tied: bool) -> Result<Config> {
    for prefix in OTHERS {
        weights.skip(prefix);
    }
    let text = config.object("text_config")?.ok_or_else(|| Error::MissingField("text_config".into()))?;
    let mut fields = Dict::new();
    fields.insert("tie_word_embeddings", config.flag_or("tie_word_embeddings", tied)?);
    Ok(text.updated(&Config::from_fields(fields)))
}
