//! OPT.

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Norm};
use crate::weights::Weights;

/// The row of the position embedding for the first position.
const POSITIONS_BEFORE: u32 = 2;
/// The epsilon of norms, which has no field in the configuration.
const EPSILON: f64 = 1e-5;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::equal(config.size("num_attention_heads")?, hidden)?;
    let positions = config.size("max_position_embeddings")?;
    let shape = Shape { positions: Some(positions), ..parts::shape(config, hidden, heads)? };
    let model = weights.find(&["model.decoder", "decoder", ""], "embed_tokens.weight")?;
    let width = config.size_or("word_embed_proj_dim", hidden)?;
    let embedding = model.matrix("embed_tokens.weight", [shape.vocabulary, width])?;
    let table = model.matrix("embed_positions.weight", [positions + POSITIONS_BEFORE as usize, hidden])?;
    let first = config.flag_or("do_layer_norm_before", true)?;
    let blocks =
        (0..shape.layers.len()).map(|index| block(config, &model.at("layers").at(index), heads, first));
    let blocks = blocks.collect::<Result<_>>()?;
    let mut input = Input::new(&embedding)?.with_positions(table, POSITIONS_BEFORE)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", true)?)?;
    let mut output = Output { norm: None, projection: None, head, scale: None, cap: None };
    if first && !config.flag_or("_remove_final_layer_norm", false)? {
        output.norm = Some(norm(config, &model, "final_layer_norm", hidden)?);
    }
    if width != hidden {
        input.projection = Some(model.linear("project_in", width, hidden, false)?);
        output.projection = Some(model.linear("project_out", hidden, width, false)?);
    }
    Ok(Box::new(Decoder { shape, input, blocks, output, rotaries: Vec::new() }))
}

/// A layer norm with optional weights.
fn norm(config: &Config, weights: &Weights, name: &str, hidden: usize) -> Result<Norm> {
    if config.flag_or("layer_norm_elementwise_affine", true)? {
        return weights.layer_norm(name, hidden, EPSILON);
    }
    parts::plain_norm(weights, hidden, EPSILON)
}

fn block(config: &Config, weights: &Weights, heads: Heads, first: bool) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let inner = config.size("ffn_dim")?;
    let bias = config.flag_or("enable_bias", true)?;
    let activation = Activation::read(config, "activation_function", "relu")?;
    let attention = norm(config, weights, "self_attn_layer_norm", hidden)?;
    let feed_forward = norm(config, weights, "final_layer_norm", hidden)?;
    Ok(Block {
        flow: if first {
            Flow::Sequential {
                attention: Norms::before(attention),
                feed_forward: Norms::before(feed_forward),
            }
        } else {
            Flow::NormedSum { attention, feed_forward }
        },
        attention: parts::attention(&weights.at("self_attn"), hidden, heads, bias, ("out_proj", bias))?,
        feed_forward: FeedForward::Dense(parts::plain_mlp(
            weights,
            ["fc1", "fc2"],
            [hidden, inner],
            bias,
            activation,
        )?),
        rotary: None,
    })
}
