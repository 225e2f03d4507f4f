//! InternLM 2 and 3 as published, without the code that comes with them: LLaMA with other names.

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp, Rotary, RotaryStyle};
use crate::weights::Weights;

/// Builds InternLM 2.
pub(super) fn build_2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let model = weights.find(&["model", ""], "tok_embeddings.weight")?;
    let embedding = model.matrix("tok_embeddings.weight", [shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers.len()).map(|index| block_2(config, &model.at("layers").at(index), heads));
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let head = parts::head(weights, "output", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    let rotary = crate::layers::RotaryParameters::read(config, 10_000.0)?;
    Ok(Box::new(Decoder {
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.rms_norm("norm", hidden, epsilon, 0.0)?, head),
        rotaries: vec![Rotary::new(rotary, heads.width, RotaryStyle::Halves)?],
        shape,
    }))
}

fn block_2(config: &Config, weights: &Weights, heads: Heads) -> Result<Block> {
    let hidden = config.size("hidden_size")?;
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let bias = config.flag_or("bias", true)?;
    let Heads { count, kv, width } = heads;
    let own = weights.at("attention");
    // Each key/value head follows the query heads that read it.
    let (weight, added) = parts::fused(&own, "wqkv", hidden, (count + 2 * kv) * width, bias)?;
    let sizes = [count / kv * width, width, width];
    let three = parts::split_three(&weight, added.as_ref(), kv, sizes)?;
    let output = own.linear("wo", count * width, hidden, bias)?;
    let mlp = weights.at("feed_forward");
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.rms_norm("attention_norm", hidden, epsilon, 0.0)?),
            feed_forward: Norms::before(weights.rms_norm("ffn_norm", hidden, epsilon, 0.0)?),
        },
        attention: parts::plain_attention(three, output, heads),
        feed_forward: FeedForward::Dense(Mlp {
            gate: Some(mlp.linear("w1", hidden, inner, false)?),
            up: mlp.linear("w3", hidden, inner, false)?,
            down: mlp.linear("w2", inner, hidden, false)?,
            activation: Activation::read(config, "hidden_act", "silu")?,
        }),
        rotary: Some(0),
    })
}

/// Builds InternLM 3.
pub(super) fn build_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let frame = Frame::new(config, heads, 1e-6, 10_000.0)?;
    let bias = config.flag_or("bias", false)?;
    let in_bias = config.flag_or("qkv_bias", false)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let own = weights.at("mlp");
        let mlp = Mlp {
            gate: Some(own.linear("gate_proj", hidden, inner, bias)?),
            up: own.linear("up_proj", hidden, inner, bias)?,
            down: own.linear("down_proj", inner, hidden, bias)?,
            activation,
        };
        let own = weights.at("self_attn");
        let attention = parts::attention(&own, hidden, heads, in_bias, ("o_proj", bias))?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?))
}
