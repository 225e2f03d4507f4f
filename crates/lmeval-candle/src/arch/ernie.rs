//! ERNIE 4.5 with experts.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Mlp, Normalise, RotaryStyle, Routing};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads { kv: config.size_or("num_key_value_heads", 4)?, ..Heads::read(config, hidden)? };
    let heads = heads.checked()?;
    let frame = Frame::new(config, heads, 1e-5, 500_000.0)?;
    let frame = Frame { style: RotaryStyle::Neighbours, tied: true, ..frame };
    let bias = config.flag_or("use_bias", false)?;
    for name in ["mtp_block", "mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj"] {
        weights.at("model").skip(name);
    }
    Ok(Box::new(parts::like_llama(config, weights, frame, |layer, weights| {
        let own = weights.at("self_attn");
        let attention = parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?;
        let mlp = weights.at("mlp");
        let feed_forward = if has_experts(config, layer)? {
            FeedForward::Experts(Box::new(mixture(config, &mlp, hidden)?))
        } else {
            FeedForward::Dense(dense(config, &mlp, config.size("intermediate_size")?)?)
        };
        Ok((attention, feed_forward))
    })?))
}

/// Whether a layer has experts.
fn has_experts(config: &Config, layer: usize) -> Result<bool> {
    let interval = config.size_or("moe_layer_interval", 1)?;
    if interval == 0 {
        return Err(parts::wrong(config, "moe_layer_interval", "a number above zero"));
    }
    let first = config.size_or("moe_layer_start_index", 1)?;
    // -1 is the last layer.
    let last = config.number_or("moe_layer_end_index", -1.0)?;
    let is_before_end = last == -1.0 || layer as f64 <= last;
    Ok((layer + 1).is_multiple_of(interval) && layer >= first && is_before_end)
}

/// A dense layer, or the expert that reads every token.
fn dense(config: &Config, weights: &Weights, inner: usize) -> Result<Mlp> {
    let hidden = config.size("hidden_size")?;
    let bias = config.flag_or("use_bias", false)?;
    Ok(Mlp {
        gate: Some(weights.linear("gate_proj", hidden, inner, bias)?),
        up: weights.linear("up_proj", hidden, inner, bias)?,
        down: weights.linear("down_proj", inner, hidden, bias)?,
        activation: Activation::read(config, "hidden_act", "silu")?,
    })
}

fn mixture(config: &Config, weights: &Weights, hidden: usize) -> Result<Experts> {
    let inner = config.size("moe_intermediate_size")?;
    let count = config.first_size(&["moe_num_experts", "num_experts"])?;
    let shared = match config.size_or("moe_num_shared_experts", 2)? {
        0 => None,
        shared => Some((dense(config, &weights.at("shared_experts"), shared * inner)?, None)),
    };
    let correction = weights.at("moe_statics").exact().tensor("e_score_correction_bias", &[1, count])?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    Ok(Experts {
        // Reference: the router is never rounded.
        router: weights.exact().linear("gate", hidden, count, false)?,
        routing: Routing {
            correction: Some(correction.squeeze(0)?.to_vec1()?),
            normalise: Normalise::AtLeast(config.number_or("moe_norm_min", 1e-12)? as f32),
            is_wide: true,
            ..Routing::softmax(config.size_or("moe_k", 6)?, false)
        },
        routed: parts::gated_experts(&weights.at("experts"), count, hidden, inner, activation)?,
        shared,
        narrowed: None,
    })
}
