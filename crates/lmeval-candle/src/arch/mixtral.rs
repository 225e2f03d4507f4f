//! Mixtral: Mistral with a mixture of experts.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Mlp, Routing};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let frame = Frame::new(config, heads, 1e-5, 1_000_000.0)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let mut attention =
            parts::attention(&weights.at("self_attn"), hidden, heads, false, ("o_proj", false))?;
        attention.options.window = parts::window(config, None)?;
        let experts = mixture(config, &weights.at("block_sparse_moe"), hidden)?;
        Ok((attention, FeedForward::Experts(Box::new(experts))))
    })?))
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
        routed: (0..count).map(expert).collect::<Result<_>>()?,
        routing: Routing::softmax(config.size("num_experts_per_tok")?, true),
        shared: None,
        narrowed: None,
    })
}
