//! Mistral and Ministral: LLaMA with sliding-window attention.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::Activation;
use crate::weights::Weights;

/// Builds Mistral.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, |_| parts::window(config, Some(4096)))
}

/// Builds Ministral, in which some layers may have full attention.
pub(super) fn build_ministral(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let window = parts::window(config, Some(4096))?;
    build_with(config, weights, |layer| {
        let slides = parts::slides(config, layer, |_| window.is_some())?;
        if slides && window.is_none() {
            return Err(parts::wrong(
                config,
                "layer_types",
                "without sliding windows, because `sliding_window` is not set",
            ));
        }
        Ok(window.filter(|_| slides))
    })
}

fn build_with(
    config: &Config,
    weights: &Weights,
    window: impl Fn(usize) -> Result<Option<usize>>,
) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let frame = Frame::new(config, heads, 1e-6, 10_000.0)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |layer, weights| {
        let mut attention =
            parts::attention(&weights.at("self_attn"), hidden, heads, false, ("o_proj", false))?;
        attention.options.window = window(layer)?;
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?))
}
