//! Phi 1, 1.5 and 2.

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.matrix("embed_tokens.weight", [shape.vocabulary, hidden])?;
    let blocks =
        (0..shape.layers.len()).map(|index| block(config, &model.at("layers").at(index), hidden, heads));
    let width = parts::rotated_width(config, heads.width, 0.5)?;
    let rotary = Rotary::new(RotaryParameters::read(config, 10_000.0)?, width, RotaryStyle::Halves)?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("final_layernorm", hidden, epsilon)?, head),
        rotaries: vec![rotary],
    }))
}

fn block(config: &Config, weights: &Weights, hidden: usize, heads: Heads) -> Result<Block> {
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let projections = weights.at("self_attn");
    let mut attention = parts::attention(&projections, hidden, heads, true, ("dense", true))?;
    if config.flag_or("qk_layernorm", false)? {
        let norm = |name: &str| projections.layer_norm(name, heads.width, epsilon);
        attention.head_norms = Some((norm("q_layernorm")?, norm("k_layernorm")?));
    }
    let activation = Activation::read(config, "hidden_act", "gelu_new")?;
    let mlp = parts::plain_mlp(&weights.at("mlp"), ["fc1", "fc2"], [hidden, inner], true, activation)?;
    Ok(Block {
        flow: Flow::Parallel {
            attention: weights.layer_norm("input_layernorm", hidden, epsilon)?,
            feed_forward: None,
        },
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: Some(0),
    })
}
