//! LLaMA, and models of its shape: SmolLM, Vicuna, Yi.

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Makes the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let attention_bias = config.flag_or("attention_bias", false)?;
    let mlp_bias = config.flag_or("mlp_bias", false)?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.tensor("embed_tokens.weight", &[shape.vocabulary, hidden])?;
    let block = |index: usize| {
        let weights = model.at("layers").at(index);
        let norm = |name: &str| weights.rms_norm(name, hidden, epsilon, 0.0).map(Norms::before);
        let mlp = weights.at("mlp");
        let output = ("o_proj", attention_bias);
        Ok(Block {
            flow: Flow::Sequential {
                attention: norm("input_layernorm")?,
                feed_forward: norm("post_attention_layernorm")?,
            },
            attention: parts::attention(&weights.at("self_attn"), hidden, heads, attention_bias, output)?,
            feed_forward: FeedForward::Dense(Mlp {
                gate: Some(mlp.linear("gate_proj", hidden, inner, mlp_bias)?),
                up: mlp.linear("up_proj", hidden, inner, mlp_bias)?,
                down: mlp.linear("down_proj", inner, hidden, mlp_bias)?,
                activation,
            }),
            rotary: Some(0),
        })
    };
    let rotary =
        Rotary::new(RotaryParameters::read(config, None, 10_000.0)?, heads.width, RotaryStyle::Halves)?;
    let head = weights.head("lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: (0..shape.layers).map(block).collect::<Result<_>>()?,
        output: Output::new(model.rms_norm("norm", hidden, epsilon, 0.0)?, head),
        rotaries: vec![rotary],
    }))
}
