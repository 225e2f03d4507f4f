//! Mixtral: Mistral with a mixture of experts.

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Mlp, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Makes the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.tensor("embed_tokens.weight", &[shape.vocabulary, hidden])?;
    let block = |index: usize| {
        let weights = model.at("layers").at(index);
        let mut attention =
            parts::attention(&weights.at("self_attn"), hidden, heads, false, ("o_proj", false))?;
        attention.options.window = parts::window(config, None)?;
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
            feed_forward: FeedForward::Experts(mixture(config, &weights.at("block_sparse_moe"), hidden)?),
            rotary: Some(0),
        })
    };
    let parameters = RotaryParameters::read(config, None, 1_000_000.0)?;
    let head = weights.head("lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: (0..shape.layers).map(block).collect::<Result<_>>()?,
        output: Output::new(model.rms_norm("norm", hidden, epsilon, 0.0)?, head),
        rotaries: vec![Rotary::new(parameters, heads.width, RotaryStyle::Halves)?],
    }))
}

fn mixture(config: &Config, weights: &Weights, hidden: usize) -> Result<Experts> {
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let count = config.first_size(&["num_local_experts", "num_experts"])?;
    let expert = |index: usize| {
        let weights = weights.at("experts").at(index);
        Ok(Mlp {
            gate: Some(weights.linear("w1", hidden, inner, false)?),
            up: weights.linear("w3", hidden, inner, false)?,
            down: weights.linear("w2", inner, hidden, false)?,
            activation,
        })
    };
    Ok(Experts {
        router: weights.linear("gate", hidden, count, false)?,
        experts: (0..count).map(expert).collect::<Result<_>>()?,
        chosen: config.size("num_experts_per_tok")?,
        normalise: true,
        shared: None,
    })
}
