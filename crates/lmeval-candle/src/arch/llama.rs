//! LLaMA, and models of its shape: SmolLM, Vicuna, Yi.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp};
use crate::weights::Weights;

/// Makes the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let bias = config.flag_or("attention_bias", false)?;
    let mlp_bias = config.flag_or("mlp_bias", false)?;
    parts::like_llama(config, weights, heads, (1e-6, 10_000.0), |_, weights| {
        let mlp = weights.at("mlp");
        let mlp = Mlp {
            gate: Some(mlp.linear("gate_proj", hidden, inner, mlp_bias)?),
            up: mlp.linear("up_proj", hidden, inner, mlp_bias)?,
            down: mlp.linear("down_proj", inner, hidden, mlp_bias)?,
            activation,
        };
        let attention = parts::attention(&weights.at("self_attn"), hidden, heads, bias, ("o_proj", bias))?;
        Ok((attention, FeedForward::Dense(mlp)))
    })
}
