//! MPT.

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::Activation;
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let own = config.object("attn_config")?;
    if let Some(own) = &own {
        parts::only_flag(own, "alibi", true)?;
        parts::only_flag(own, "qk_ln", false)?;
        parts::only_flag(own, "prefix_lm", false)?;
    }
    let hidden = config.first_size(&["d_model", "hidden_size"])?;
    let heads = Heads::equal(config.first_size(&["n_heads", "num_attention_heads"])?, hidden)?;
    let shape = Shape {
        layers: parts::equal_layers(config.first_size(&["n_layers", "num_hidden_layers"])?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: None,
    };
    let model = weights.find(&["transformer", ""], "wte.weight")?;
    let embedding = model.matrix("wte.weight", [shape.vocabulary, hidden])?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let blocks = (0..shape.layers.len())
        .map(|index| block(own.as_ref(), &model.at("blocks").at(index), heads, epsilon));
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", true)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("norm_f", hidden, epsilon)?, head),
        rotaries: Vec::new(),
    }))
}

fn block(own: Option<&Config>, weights: &Weights, heads: Heads, epsilon: f64) -> Result<Block> {
    let hidden = heads.count * heads.width;
    let projections = weights.at("attn");
    let (weight, _) = parts::fused(&projections, "Wqkv", hidden, 3 * hidden, false)?;
    let three = parts::split_three(&weight, None, 1, [hidden; 3])?;
    let output = projections.linear("out_proj", hidden, hidden, false)?;
    let mut attention = parts::plain_attention(three, output, heads);
    attention.options.slopes = Some(slopes(heads.count));
    if let Some(own) = own {
        attention.clip = own.optional_number("clip_qkv")?.filter(|clip| *clip != 0.0);
        if let Some(scale) = own.optional_number("softmax_scale")? {
            attention.options.scale = scale as f32;
        }
    }
    let names = ["up_proj", "down_proj"];
    let mlp = parts::plain_mlp(&weights.at("ffn"), names, [hidden, 4 * hidden], false, Activation::Gelu)?;
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.layer_norm("norm_1", hidden, epsilon)?),
            feed_forward: Norms::before(weights.layer_norm("norm_2", hidden, epsilon)?),
        },
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: None,
    })
}

/// The ALiBi slope of each head: powers of two down to 2⁻⁸ for the next power of two of heads, odd indices first.
fn slopes(heads: usize) -> Vec<f32> {
    let even = heads.next_power_of_two();
    let slope = |index: usize| 2.0_f64.powf(-8.0 * index as f64 / even as f64) as f32;
    if even == heads {
        return (1..=even).map(slope).collect();
    }
    let (second, first) = ((2..=even).step_by(2), (1..=even).step_by(2));
    second.chain(first).take(heads).map(slope).collect()
}
