//! OLMo 1, 2 and 3, OLMoE, and EXAONE 4, which has the blocks of OLMo 2.

use super::Architecture;
use super::decoder::{FeedForward, Flow, Norms};
use super::parts::{self, Frame, Heads, NormBuilder};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Rotary, RotaryStyle, Routing, SelfAttention};
use crate::weights::Weights;

/// The epsilon of OLMo 1's norms, which have no weights and no field in the configuration.
const EPSILON: f64 = 1e-5;
/// The index of the rotary embedding of sliding-window layers.
const SLIDING: usize = 1;

/// Builds OLMo 1.
pub(super) fn build_1(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let norm: NormBuilder = Box::new(move |weights, _| parts::plain_norm(weights, hidden, EPSILON));
    let frame = Frame { norm, ..Frame::new(config, heads, EPSILON, 10_000.0)? };
    let clip = config.optional_number("clip_qkv")?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let mut attention = attention(config, weights, heads)?;
        attention.clip = clip;
        Ok((attention, dense(config, weights)?))
    })?))
}

/// Builds OLMo 2.
pub(super) fn build_2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let heads = Heads::read(config, config.size("hidden_size")?)?;
    let frame = Frame::new(config, heads, 1e-5, 10_000.0)?;
    let block =
        |_: usize, weights: &Weights| Ok((row_normed(config, weights, heads)?, dense(config, weights)?));
    Ok(Box::new(parts::like_llama_flowing(config, weights, frame, block, behind)?))
}

/// Builds OLMo 3: most layers have a sliding window and an unscaled rotary embedding.
pub(super) fn build_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let heads = Heads::read(config, config.size("hidden_size")?)?;
    // Reference: the top-level field applies to full-attention layers.
    let theta = [config.number_or("rope_theta", 500_000.0)?, 500_000.0];
    let [rotary, sliding] = parts::rotations_by_kind(config, theta)?;
    let frame = Frame::rotating(config, heads, 1e-5, rotary)?;
    let is_sliding = |layer: usize| parts::slides(config, layer, |layer| !(layer + 1).is_multiple_of(4));
    let block = |layer: usize, weights: &Weights| {
        let mut attention = row_normed(config, weights, heads)?;
        if is_sliding(layer)? {
            attention.options.window = parts::window(config, Some(4096))?;
        }
        Ok((attention, dense(config, weights)?))
    };
    let mut decoder = parts::like_llama_flowing(config, weights, frame, block, behind)?;
    decoder.rotaries.push(Rotary::new(sliding, heads.width, RotaryStyle::Halves)?);
    for (layer, block) in decoder.blocks.iter_mut().enumerate() {
        if is_sliding(layer)? {
            block.rotary = Some(SLIDING);
        }
    }
    Ok(Box::new(decoder))
}

/// Builds OLMoE: OLMo 1 with weighted norms, query and key norms, and experts.
pub(super) fn build_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let frame = Frame::new(config, heads, 1e-5, 10_000.0)?;
    let clip = config.optional_number("clip_qkv")?;
    let inner = config.size("intermediate_size")?;
    let count = config.size("num_experts")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let mut attention = row_normed(config, weights, heads)?;
        attention.clip = clip;
        let mlp = weights.at("mlp");
        let expert = |index: usize| parts::gated(&mlp.at("experts").at(index), hidden, inner, activation);
        let experts = Experts {
            router: mlp.linear("gate", hidden, count, false)?,
            routed: (0..count).map(expert).collect::<Result<_>>()?,
            routing: Routing::softmax(
                config.size("num_experts_per_tok")?,
                config.flag_or("norm_topk_prob", false)?,
            ),
            shared: None,
            narrowed: None,
        };
        Ok((attention, FeedForward::Experts(Box::new(experts))))
    })?))
}

/// Builds EXAONE 4: full-attention layers do not rotate if others have a sliding window.
pub(super) fn build_exaone(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let frame = Frame::new(config, heads, 1e-5, 10_000.0)?;
    let window = parts::window(config, Some(4096))?;
    let is_sliding = |layer: usize| match window {
        Some(_) => slides(config, layer),
        None => Ok(false),
    };
    let block = |layer: usize, weights: &Weights| {
        let projections = weights.at("self_attn");
        let mut attention = parts::attention(&projections, hidden, heads, false, ("o_proj", false))?;
        let norm = |name: &str| projections.rms_norm(name, heads.width, epsilon, 0.0);
        attention.head_norms = Some((norm("q_norm")?, norm("k_norm")?));
        let slides = is_sliding(layer)?;
        attention.options.window = window.filter(|_| slides);
        Ok((attention, dense(config, weights)?))
    };
    let mut decoder = parts::like_llama_flowing(config, weights, frame, block, behind)?;
    for (layer, block) in decoder.blocks.iter_mut().enumerate() {
        let rotates = window.is_none() || is_sliding(layer)?;
        block.rotary = block.rotary.filter(|_| rotates);
    }
    Ok(Box::new(decoder))
}

/// Whether a layer of EXAONE has a sliding window; by default, three of four do.
fn slides(config: &Config, layer: usize) -> Result<bool> {
    if config.has("layer_types") {
        // The pattern may then be a string.
        return parts::slides(config, layer, |_| false);
    }
    let pattern = config.size_or("sliding_window_pattern", 4)?;
    if pattern == 0 {
        return Err(parts::wrong(config, "sliding_window_pattern", "a number above zero"));
    }
    Ok(!(layer + 1).is_multiple_of(pattern))
}

/// Normalises the output of each layer instead of its input.
fn behind(weights: &Weights, norm: &NormBuilder) -> Result<Flow> {
    Ok(Flow::Sequential {
        attention: Norms::behind(norm(weights, "post_attention_layernorm")?),
        feed_forward: Norms::behind(norm(weights, "post_feedforward_layernorm")?),
    })
}

fn dense(config: &Config, weights: &Weights) -> Result<FeedForward> {
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let sizes = (config.size("hidden_size")?, config.size("intermediate_size")?);
    Ok(FeedForward::Dense(parts::gated(&weights.at("mlp"), sizes.0, sizes.1, activation)?))
}

fn attention(config: &Config, weights: &Weights, heads: Heads) -> Result<SelfAttention> {
    let hidden = config.size("hidden_size")?;
    let bias = config.flag_or("attention_bias", false)?;
    parts::attention(&weights.at("self_attn"), hidden, heads, bias, ("o_proj", bias))
}

/// Attention with query and key norms over all heads.
fn row_normed(config: &Config, weights: &Weights, heads: Heads) -> Result<SelfAttention> {
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let mut attention = attention(config, weights, heads)?;
    let projections = weights.at("self_attn");
    let norm = |name: &str, count: usize| projections.rms_norm(name, count * heads.width, epsilon, 0.0);
    attention.row_norms = Some((norm("q_norm", heads.count)?, norm("k_norm", heads.kv)?));
    Ok(attention)
}
