//! OLMo 2.

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Makes the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.tensor("embed_tokens.weight", &[shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers).map(|index| block(config, &model.at("layers").at(index), hidden, heads));
    let rotary = Rotary::new(RotaryParameters::read(config, 10_000.0)?, heads.width, RotaryStyle::Halves)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.rms_norm("norm", hidden, epsilon, 0.0)?, head),
        rotaries: vec![rotary],
    }))
}

fn block(config: &Config, weights: &Weights, hidden: usize, heads: Heads) -> Result<Block> {
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let bias = config.flag_or("attention_bias", false)?;
    let projections = weights.at("self_attn");
    let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", bias))?;
    attention.row_norms = Some((
        projections.rms_norm("q_norm", heads.count * heads.width, epsilon, 0.0)?,
        projections.rms_norm("k_norm", heads.kv * heads.width, epsilon, 0.0)?,
    ));
    // Parts read the rows as they are; what they make is normed before it is added.
    let behind =
        |name: &str| Ok(Norms { before: None, behind: Some(weights.rms_norm(name, hidden, epsilon, 0.0)?) });
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
    let (first, second): (Result<_>, Result<_>) =
        (behind("post_attention_layernorm"), behind("post_feedforward_layernorm"));
    Ok(Block {
        flow: Flow::Sequential { attention: first?, feed_forward: second? },
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: Some(0),
    })
}
