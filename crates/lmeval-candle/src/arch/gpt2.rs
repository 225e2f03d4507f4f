//! GPT-2 and StarCoder 1 (GPT-BigCode), which supports multi-query attention.

use candle_core::Tensor;

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Linear, Mlp};
use crate::matrix::Matrix;
use crate::weights::Weights;

/// Builds GPT-2.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, false, block)
}

/// Builds GPT-BigCode.
pub(super) fn build_bigcode(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, config.flag_or("multi_query", true)?, bigcode_block)
}

/// Builds a block.
type BuildBlock = fn(&Config, &Weights, Heads, usize) -> Result<Block>;

fn build_with(
    config: &Config,
    weights: &Weights,
    shares_keys: bool,
    block: BuildBlock,
) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "add_cross_attention", false)?;
    let hidden = config.first_size(&["n_embd", "hidden_size"])?;
    let mut heads = Heads::equal(config.first_size(&["n_head", "num_attention_heads"])?, hidden)?;
    if shares_keys {
        heads.kv = 1;
    }
    let positions = config.first_size(&["n_positions", "max_position_embeddings"])?;
    let shape = Shape {
        layers: parts::equal_layers(config.first_size(&["n_layer", "num_hidden_layers"])?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: Some(positions),
    };
    let model = weights.find(&["transformer", ""], "wte.weight")?;
    let embedding = model.matrix("wte.weight", [shape.vocabulary, hidden])?;
    let table = model.matrix("wpe.weight", [positions, hidden])?;
    let blocks = (0..shape.layers.len()).map(|index| block(config, &model.at("h").at(index), heads, index));
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", true)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?.with_positions(table, 0)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("ln_f", hidden, epsilon)?, head),
        rotaries: Vec::new(),
    }))
}

fn block(config: &Config, weights: &Weights, heads: Heads, layer: usize) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let inner = config.size_or("n_inner", 4 * hidden)?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let projections = weights.at("attn");
    let (weight, bias) = transposed(&projections, "c_attn", hidden, 3 * hidden)?;
    let three = parts::split_three(&weight, Some(&bias), 1, [hidden; 3])?;
    let mut attention = parts::plain_attention(three, linear(&projections, "c_proj", hidden, hidden)?, heads);
    if !config.flag_or("scale_attn_weights", true)? {
        attention.options.scale = 1.0;
    }
    if config.flag_or("scale_attn_by_inverse_layer_idx", false)? {
        attention.options.scale /= (layer + 1) as f32;
    }
    let mlp = weights.at("mlp");
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.layer_norm("ln_1", hidden, epsilon)?),
            feed_forward: Norms::before(weights.layer_norm("ln_2", hidden, epsilon)?),
        },
        attention,
        feed_forward: FeedForward::Dense(Mlp {
            gate: None,
            up: linear(&mlp, "c_fc", hidden, inner)?,
            down: linear(&mlp, "c_proj", inner, hidden)?,
            activation: Activation::read(config, "activation_function", "gelu_new")?,
        }),
        rotary: None,
    })
}

fn bigcode_block(config: &Config, weights: &Weights, heads: Heads, _: usize) -> Result<Block> {
    let Heads { count, kv, width } = heads;
    let hidden = count * width;
    let inner = config.size_or("n_inner", 4 * hidden)?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let projections = weights.at("attn");
    let (weight, bias) = parts::fused(&projections, "c_attn", hidden, (count + 2 * kv) * width, true)?;
    // One key and one value after all queries, or query, key and value interleaved per head.
    let (groups, sizes) =
        if config.flag_or("multi_query", true)? { (1, [hidden, width, width]) } else { (count, [width; 3]) };
    let three = parts::split_three(&weight, bias.as_ref(), groups, sizes)?;
    let output = projections.linear("c_proj", hidden, hidden, true)?;
    let mut attention = parts::plain_attention(three, output, heads);
    if !config.flag_or("scale_attn_weights", true)? {
        attention.options.scale = 1.0;
    }
    let activation = Activation::read(config, "activation_function", "gelu_pytorch_tanh")?;
    let mlp = parts::plain_mlp(&weights.at("mlp"), ["c_fc", "c_proj"], [hidden, inner], true, activation)?;
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.layer_norm("ln_1", hidden, epsilon)?),
            feed_forward: Norms::before(weights.layer_norm("ln_2", hidden, epsilon)?),
        },
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: None,
    })
}

/// A linear layer stored as `[input, output]`.
fn linear(weights: &Weights, name: &str, input: usize, output: usize) -> Result<Linear> {
    let (weight, bias) = transposed(weights, name, input, output)?;
    Ok(Linear::new(weight, Some(bias))?)
}

/// A weight stored as `[input, output]`, and its bias.
fn transposed(weights: &Weights, name: &str, input: usize, output: usize) -> Result<(Matrix, Tensor)> {
    let below = weights.at(name);
    Ok((below.transposed("weight", [input, output])?, below.tensor("bias", &[output])?))
}
