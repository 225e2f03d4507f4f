//! Bamba: layers of Mamba 2 and, at some indices, attention.

use super::Architecture;
use super::decoder::{FeedForward, Flow, Mixer, Norms};
use super::mamba2::{Mamba2, Options};
use super::parts::{self, Frame, Heads, NormBuilder};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads { kv: config.size_or("num_key_value_heads", 8)?, ..Heads::read(config, hidden)? };
    let heads = heads.checked()?;
    // Reference: half of each head rotates, whatever the configuration says.
    let frame = Frame {
        rotated: heads.width / 2,
        last_norm: "final_layernorm",
        ..Frame::new(config, heads, 1e-5, 10_000.0)?
    };
    let bias = config.flag_or("attention_bias", false)?;
    let mlp_bias = config.flag_or("mlp_bias", false)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let attends = config.numbers("attn_layer_indices")?.unwrap_or_default();
    let scanned = (config.number_or("mamba_expand", 2.0)? * hidden as f64) as usize;
    let block = |layer: usize, weights: &Weights| {
        let mixer: Box<dyn Mixer> = if attends.contains(&(layer as f64)) {
            let own = weights.at("self_attn");
            Box::new(parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?)
        } else {
            Box::new(Mamba2::load(&Options::read(config, scanned)?, &weights.at("mamba"))?)
        };
        let own = weights.at("feed_forward");
        let mlp = Mlp {
            gate: Some(own.linear("gate_proj", hidden, inner, mlp_bias)?),
            up: own.linear("up_proj", hidden, inner, mlp_bias)?,
            down: own.linear("down_proj", inner, hidden, mlp_bias)?,
            activation,
        };
        Ok((mixer, FeedForward::Dense(mlp)))
    };
    Ok(Box::new(parts::like_llama_flowing(config, weights, frame, block, flow)?))
}

/// The norms of blocks, which Jamba and Falcon H1 have too.
pub(super) fn flow(weights: &Weights, norm: &NormBuilder) -> Result<Flow> {
    Ok(Flow::Sequential {
        attention: Norms::before(norm(weights, "input_layernorm")?),
        feed_forward: Norms::before(norm(weights, "pre_ff_layernorm")?),
    })
}
