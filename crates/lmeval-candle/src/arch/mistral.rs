//! Mistral: LLaMA's shape with a window that attention looks through.

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
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.tensor("embed_tokens.weight", &[shape.vocabulary, hidden])?;
    let block = |index: usize| {
        let weights = model.at("layers").at(index);
        let mut attention =
            parts::attention(&weights.at("self_attn"), hidden, heads, false, ("o_proj", false))?;
        attention.options.window = parts::window(config, Some(4096))?;
        Ok(Block {
            flow: Flow::Sequential {
                attention: Norms::before(weights.rms_norm("input_layernorm", hidden, epsilon, 0.0)?),
                feed_forward: Norms::before(weights.rms_norm(
                    "post_attention_layernorm",
                    hidden,
                    epsilon,
                    0.0,
                )?),
            },
            attention,
            feed_forward: FeedForward::Dense(parts::gated(&weights.at("mlp"), hidden, inner, activation)?),
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
