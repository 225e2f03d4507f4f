//! Mistral: LLaMA's shape with a window that attention looks through.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::Activation;
use crate::weights::Weights;

/// Makes the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    parts::like_llama(config, weights, heads, (1e-6, 10_000.0), |_, weights| {
        let mut attention =
            parts::attention(&weights.at("self_attn"), hidden, heads, false, ("o_proj", false))?;
        attention.options.window = parts::window(config, Some(4096))?;
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })
}
