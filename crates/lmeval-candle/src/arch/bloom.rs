//! BLOOM.

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::Activation;
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "apply_residual_connection_post_layernorm", false)?;
    let hidden = parts::hidden(config)?;
    let heads = Heads::equal(config.first_size(&["n_head", "num_attention_heads"])?, hidden)?;
    let shape = Shape {
        layers: parts::equal_layers(config.first_size(&["n_layer", "num_hidden_layers"])?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: None,
    };
    let model = weights.find(&["transformer", ""], "word_embeddings.weight")?;
    let embedding = model.matrix("word_embeddings.weight", [shape.vocabulary, hidden])?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let blocks = (0..shape.layers.len()).map(|index| block(&model.at("h").at(index), heads, epsilon));
    let mut input = Input::new(&embedding)?;
    input.norm = Some(model.layer_norm("word_embeddings_layernorm", hidden, epsilon)?);
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", true)?)?;
    Ok(Box::new(Decoder {
        shape,
        input,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("ln_f", hidden, epsilon)?, head),
        rotaries: Vec::new(),
    }))
}

fn block(weights: &Weights, heads: Heads, epsilon: f64) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let projections = weights.at("self_attention");
    let (weight, bias) = parts::fused(&projections, "query_key_value", hidden, 3 * hidden, true)?;
    // Query, key and value are interleaved per head.
    let three = parts::split_three(&weight, bias.as_ref(), heads.count, [heads.width; 3])?;
    let output = projections.linear("dense", hidden, hidden, true)?;
    let mut attention = parts::plain_attention(three, output, heads);
    attention.options.slopes = Some(parts::slopes(heads.count));
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    let sizes = [hidden, 4 * hidden];
    let mlp = parts::plain_mlp(&weights.at("mlp"), names, sizes, true, Activation::GeluTanh)?;
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.layer_norm("input_layernorm", hidden, epsilon)?),
            feed_forward: Norms::before(weights.layer_norm("post_attention_layernorm", hidden, epsilon)?),
        },
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: None,
    })
}
