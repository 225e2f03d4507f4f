//! Mistral and Ministral: LLaMA with sliding-window attention, or with queries scaled by position.

use lmeval_pycompat::Value;

use super::Architecture;
use super::decoder::{Decoder, FeedForward};
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layers::{Activation, RotaryParameters, Temperature};
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

/// Builds Ministral 3, whose queries are scaled by position.
pub(super) fn build_ministral_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let own = RotaryParameters::object(config)?;
    let own = own.ok_or_else(|| Error::MissingField("rope_parameters".into()))?;
    let weight = own.number("llama_4_scaling_beta")? as f32;
    let step = own.size("original_max_position_embeddings")? as f32;
    let config =
        config.with_defaults(&[("head_dim", Value::Int(128)), ("num_key_value_heads", Value::Int(8))]);
    let mut decoder = decoder(&config, weights, 1e-5, 1_000_000.0, |_| parts::window(&config, None))?;
    for block in &mut decoder.blocks {
        block.attention.temperature = Some(Temperature { first: 0.0, step, weight });
    }
    Ok(Box::new(decoder))
}

fn build_with(
    config: &Config,
    weights: &Weights,
    window: impl Fn(usize) -> Result<Option<usize>>,
) -> Result<Box<dyn Architecture>> {
    Ok(Box::new(decoder(config, weights, 1e-6, 10_000.0, window)?))
}

fn decoder(
    config: &Config,
    weights: &Weights,
    epsilon: f64,
    theta: f64,
    window: impl Fn(usize) -> Result<Option<usize>>,
) -> Result<Decoder> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let frame = Frame::new(config, heads, epsilon, theta)?;
    parts::like_llama(config, weights, frame, |layer, weights| {
        let mut attention =
            parts::attention(&weights.at("self_attn"), hidden, heads, false, ("o_proj", false))?;
        attention.options.window = window(layer)?;
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })
}
