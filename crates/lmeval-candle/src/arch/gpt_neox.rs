//! GPT-NeoX and Pythia.

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::equal(config.size("num_attention_heads")?, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let model = weights.find(&["gpt_neox", ""], "embed_in.weight")?;
    let embedding = model.matrix("embed_in.weight", [shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers.len()).map(|index| block(config, &model.at("layers").at(index), heads));
    // Reference: at the top level, these two fields have only their old names.
    let parameters = RotaryParameters::read_object(
        config,
        RotaryParameters::object(config)?.as_ref(),
        config.number_or("rotary_emb_base", 10_000.0)?,
        config.optional_size("original_max_position_embeddings")?,
    )?;
    let width = parts::rotated_part(config, "rotary_pct", heads.width, 0.25)?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let head = if weights.has("embed_out.weight") { "embed_out" } else { "lm_head" };
    let head = parts::head(weights, head, &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("final_layer_norm", hidden, epsilon)?, head),
        rotaries: vec![Rotary::new(parameters, width, RotaryStyle::Halves)?],
    }))
}

fn block(config: &Config, weights: &Weights, heads: Heads) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("layer_norm_eps", 1e-5)?;
    let bias = config.flag_or("attention_bias", true)?;
    let projections = weights.at("attention");
    let (weight, fused_bias) = parts::fused(&projections, "query_key_value", hidden, 3 * hidden, bias)?;
    // Query, key and value are interleaved per head.
    let three = parts::split_three(&weight, fused_bias.as_ref(), heads.count, [heads.width; 3])?;
    let activation = Activation::read(config, "hidden_act", "gelu")?;
    let first = weights.layer_norm("input_layernorm", hidden, epsilon)?;
    let second = weights.layer_norm("post_attention_layernorm", hidden, epsilon)?;
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    Ok(Block {
        flow: if config.flag_or("use_parallel_residual", true)? {
            Flow::Parallel { attention: first, feed_forward: Some(second) }
        } else {
            Flow::Sequential { attention: Norms::before(first), feed_forward: Norms::before(second) }
        },
        attention: parts::plain_attention(three, projections.linear("dense", hidden, hidden, bias)?, heads),
        feed_forward: FeedForward::Dense(parts::plain_mlp(
            &weights.at("mlp"),
            names,
            [hidden, inner],
            true,
            activation,
        )?),
        rotary: Some(0),
    })
}
