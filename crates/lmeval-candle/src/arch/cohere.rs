//! Both generations of Cohere's Command R.

use super::Architecture;
use super::decoder::{FeedForward, Flow};
use super::parts::{self, Frame, Heads, NormBuilder};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Norm, RotaryStyle};
use crate::weights::Weights;

/// Builds the first generation.
pub(super) fn build_1(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let heads = Heads::read(config, config.size("hidden_size")?)?;
    build(config, weights, heads, 500_000.0, |_| Ok((true, None)))
}

/// Builds the second generation: sliding-window layers rotate, full-attention layers do not.
pub(super) fn build_2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let count = config.size("num_attention_heads")?;
    // Reference: `head_dim` is not read.
    let heads = Heads { kv: config.size_or("num_key_value_heads", count)?, ..Heads::equal(count, hidden)? };
    let pattern = config.size_or("sliding_window_pattern", 4)?.max(1);
    let window = parts::window(config, Some(4096))?;
    parts::only_flag(config, "use_qk_norm", false)?;
    build(config, weights, heads.checked()?, 10_000.0, |layer| {
        let slides = parts::slides(config, layer, |layer| !(layer + 1).is_multiple_of(pattern))?;
        if slides && window.is_none() {
            return Err(parts::wrong(
                config,
                "sliding_window",
                "a number, because some layers have a sliding window",
            ));
        }
        Ok((slides, window.filter(|_| slides)))
    })
}

/// `kind` returns whether a layer rotates, and its window.
fn build(
    config: &Config,
    weights: &Weights,
    heads: Heads,
    theta: f64,
    kind: impl Fn(usize) -> Result<(bool, Option<usize>)>,
) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let norm: NormBuilder = Box::new(move |weights, name| weights.layer_norm(name, hidden, epsilon));
    let style = RotaryStyle::Neighbours;
    let frame = Frame { norm, style, tied: true, ..Frame::new(config, heads, epsilon, theta)? };
    let bias = config.flag_or("attention_bias", false)?;
    let has_norms = config.flag_or("use_qk_norm", false)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let block = |layer: usize, weights: &Weights| {
        let projections = weights.at("self_attn");
        let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", bias))?;
        if has_norms {
            let norm = |name: &str, count: usize| {
                let weight = projections.at(name).tensor("weight", &[count, heads.width])?;
                Ok::<_, crate::Error>(Norm::Heads { weight, epsilon: epsilon as f32 })
            };
            attention.head_norms = Some((norm("q_norm", heads.count)?, norm("k_norm", heads.kv)?));
        }
        attention.options.window = kind(layer)?.1;
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    };
    let mut decoder = parts::like_llama_flowing(config, weights, frame, block, |weights, norm| {
        Ok(Flow::Parallel { attention: norm(weights, "input_layernorm")?, feed_forward: None })
    })?;
    for (layer, block) in decoder.blocks.iter_mut().enumerate() {
        let (rotates, _) = kind(layer)?;
        block.rotary = block.rotary.filter(|_| rotates);
    }
    decoder.output.scale = Some(config.number_or("logit_scale", 0.0625)?);
    Ok(Box::new(decoder))
}
