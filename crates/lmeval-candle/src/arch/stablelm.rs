//! StableLM.

use candle_core::Tensor;

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Norm, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let count = config.size("num_attention_heads")?;
    let kv = config.size_or("num_key_value_heads", count)?;
    let heads = Heads { kv, ..Heads::equal(count, hidden)? }.checked()?;
    let shape = parts::shape(config, hidden, heads)?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.matrix("embed_tokens.weight", [shape.vocabulary, hidden])?;
    let blocks =
        (0..shape.layers.len()).map(|index| block(config, &model.at("layers").at(index), hidden, heads));
    let width = parts::rotated_width(config, heads.width, 0.25)?;
    let rotary = Rotary::new(RotaryParameters::read(config, 10_000.0)?, width, RotaryStyle::Halves)?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("norm", hidden, epsilon)?, head),
        rotaries: vec![rotary],
    }))
}

fn block(config: &Config, weights: &Weights, hidden: usize, heads: Heads) -> Result<Block> {
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let bias = config.flag_or("use_qkv_bias", false)?;
    let projections = weights.at("self_attn");
    let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", false))?;
    if config.flag_or("qk_layernorm", false)? {
        attention.head_norms = Some((
            head_norm(&projections.at("q_layernorm.norms"), heads.count, heads.width, epsilon)?,
            head_norm(&projections.at("k_layernorm.norms"), heads.kv, heads.width, epsilon)?,
        ));
    }
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
    let first = weights.layer_norm("input_layernorm", hidden, epsilon)?;
    let flow = if config.flag_or("use_parallel_residual", false)? {
        Flow::Parallel { attention: first, feed_forward: None }
    } else {
        let second = weights.layer_norm("post_attention_layernorm", hidden, epsilon)?;
        Flow::Sequential { attention: Norms::before(first), feed_forward: Norms::before(second) }
    };
    Ok(Block { flow, attention, feed_forward: FeedForward::Dense(mlp), rotary: Some(0) })
}

/// A norm with separate weights per head.
fn head_norm(weights: &Weights, heads: usize, width: usize, epsilon: f64) -> Result<Norm> {
    let each = (0..heads).map(|head| weights.at(head).tensor("weight", &[width]));
    let weight = Tensor::stack(&each.collect::<Result<Vec<_>>>()?, 0)?;
    Ok(Norm::Heads { weight, epsilon: epsilon as f32 })
}
