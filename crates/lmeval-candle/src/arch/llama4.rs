//! Llama 4: chunked attention in layers that rotate, and experts that one of a few tokens chooses.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, RotaryStyle, Routing, Scoring, SelfAttention, Temperature};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let count = config.size("num_attention_heads")?;
    let kv = config.size_or("num_key_value_heads", count)?;
    let heads = Heads { count, kv, width: config.size_or("head_dim", 128)? }.checked()?;
    let frame = Frame::new(config, heads, 1e-5, 500_000.0)?;
    let frame = Frame { style: RotaryStyle::Neighbours, ..frame };
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let mut decoder = parts::like_llama(config, weights, frame, |layer, weights| {
        let own = weights.at("feed_forward");
        let feed_forward = if has_experts(config, layer)? {
            FeedForward::Experts(Box::new(mixture(config, &own, hidden, activation)?))
        } else {
            let inner = config.size("intermediate_size_mlp")?;
            FeedForward::Dense(parts::gated(&own, hidden, inner, activation)?)
        };
        Ok((attention(config, &weights.at("self_attn"), heads, layer)?, feed_forward))
    })?;
    for (layer, block) in decoder.blocks.iter_mut().enumerate() {
        let rotates = rotates(config, layer)?;
        block.rotary = block.rotary.filter(|_| rotates);
    }
    Ok(Box::new(decoder))
}

fn attention(config: &Config, weights: &Weights, heads: Heads, layer: usize) -> Result<SelfAttention> {
    let hidden = config.size("hidden_size")?;
    let bias = config.flag_or("attention_bias", false)?;
    let mut attention = parts::attention(weights, hidden, heads, bias, ("o_proj", bias))?;
    let rotates = rotates(config, layer)?;
    if is_chunked(config, layer, rotates)? {
        attention.options.chunk = match config.optional_size("attention_chunk_size")? {
            Some(0) => return Err(parts::wrong(config, "attention_chunk_size", "a number above zero")),
            Some(size) => Some(size),
            None if config.is_null("attention_chunk_size") => {
                return Err(parts::wrong(config, "attention_chunk_size", "set for layers with chunks"));
            }
            None => Some(8192),
        };
    }
    if rotates && config.flag_or("use_qk_norm", true)? {
        let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
        let norm = parts::plain_rms_norm(weights, heads.width, epsilon)?;
        attention.head_norms = Some((norm.clone(), norm));
        attention.rotates_first = true;
    }
    // Published configurations have a number for the flag.
    let is_tuned = config.get("attn_temperature_tuning").is_none_or(lmeval_pycompat::Value::is_truthy);
    if !rotates && is_tuned {
        let step = config.number_or("floor_scale", 8192.0)? as f32;
        if step <= 0.0 {
            return Err(parts::wrong(config, "floor_scale", "a number above zero"));
        }
        let weight = config.number_or("attn_scale", 0.1)? as f32;
        attention.temperature = Some(Temperature { first: 1.0, step, weight });
    }
    Ok(attention)
}

/// Whether a layer rotates.
fn rotates(config: &Config, layer: usize) -> Result<bool> {
    let known = config.numbers("no_rope_layers")?.unwrap_or_default();
    if known.is_empty() {
        let interval = config.size_or("no_rope_layer_interval", 4)?;
        if interval == 0 {
            return Err(parts::wrong(config, "no_rope_layer_interval", "a number above zero"));
        }
        return Ok(!(layer + 1).is_multiple_of(interval));
    }
    // Reference: 1 means that the layer rotates.
    let own = known.get(layer).map(|rotates| *rotates != 0.0);
    own.ok_or_else(|| parts::wrong(config, "no_rope_layers", "a list with an entry for each layer"))
}

/// Whether the attention of a layer is chunked.
fn is_chunked(config: &Config, layer: usize, rotates: bool) -> Result<bool> {
    let kinds = config.strings("layer_types")?;
    match kinds.get(layer) {
        None if kinds.is_empty() => Ok(rotates),
        Some(&"chunked_attention") => Ok(true),
        Some(&"full_attention") => Ok(false),
        _ => {
            let expected = "a list of `chunked_attention` and `full_attention`, one for each layer";
            Err(parts::wrong(config, "layer_types", expected))
        }
    }
}

/// Whether a layer has experts.
fn has_experts(config: &Config, layer: usize) -> Result<bool> {
    if let Some(layers) = config.numbers("moe_layers")? {
        return Ok(layers.contains(&(layer as f64)));
    }
    let step = config.size_or("interleave_moe_layer_step", 1)?;
    if step == 0 {
        return Err(parts::wrong(config, "interleave_moe_layer_step", "a number above zero"));
    }
    Ok((layer + 1).is_multiple_of(step))
}

fn mixture(config: &Config, weights: &Weights, hidden: usize, activation: Activation) -> Result<Experts> {
    let inner = config.size("intermediate_size")?;
    let count = config.size("num_local_experts")?;
    Ok(Experts {
        router: weights.linear("router", hidden, count, false)?,
        routing: Routing {
            scoring: Scoring::Sigmoid,
            weighs_inputs: true,
            ..Routing::softmax(config.size_or("num_experts_per_tok", 1)?, false)
        },
        routed: parts::gated_experts(&weights.at("experts"), count, hidden, inner, activation)?,
        shared: Some((parts::gated(&weights.at("shared_expert"), hidden, inner, activation)?, None)),
        narrowed: None,
    })
}
