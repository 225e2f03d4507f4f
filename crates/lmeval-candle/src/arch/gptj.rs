//! GPT-J.

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.first_size(&["n_embd", "hidden_size"])?;
    let heads = Heads::equal(config.first_size(&["n_head", "num_attention_heads"])?, hidden)?;
    let shape = Shape {
        layers: parts::equal_layers(config.first_size(&["n_layer", "num_hidden_layers"])?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        // The reference precomputes a table of sines and cosines.
        positions: Some(config.first_size(&["n_positions", "max_position_embeddings"])?),
    };
    let model = weights.find(&["transformer", ""], "wte.weight")?;
    let embedding = model.matrix("wte.weight", [shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers.len()).map(|index| block(config, &model.at("h").at(index), heads));
    let width = config.size_or("rotary_dim", 64)?;
    if width > heads.width {
        return Err(parts::wrong(config, "rotary_dim", "at most the width of a head"));
    }
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("ln_f", hidden, epsilon)?, head),
        rotaries: vec![Rotary::new(RotaryParameters::plain(10_000.0), width, RotaryStyle::Neighbours)?],
    }))
}

fn block(config: &Config, weights: &Weights, heads: Heads) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let inner = config.size_or("n_inner", 4 * hidden)?;
    let norm = weights.layer_norm("ln_1", hidden, config.number_or("layer_norm_epsilon", 1e-5)?)?;
    let activation = Activation::read(config, "activation_function", "gelu_new")?;
    let mlp = parts::plain_mlp(&weights.at("mlp"), ["fc_in", "fc_out"], [hidden, inner], true, activation)?;
    Ok(Block {
        flow: Flow::Parallel { attention: norm, feed_forward: None },
        attention: parts::attention(&weights.at("attn"), hidden, heads, false, ("out_proj", false))?,
        feed_forward: FeedForward::Dense(mlp),
        rotary: Some(0),
    })
}
