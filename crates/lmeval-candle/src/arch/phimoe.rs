//! Phi 3.5 MoE: experts whose router leaves out those far from the best.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Mlp, RotaryParameters, Routing, Scoring};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads { kv: config.size_or("num_key_value_heads", 8)?, ..Heads::read(config, hidden)? };
    let heads = heads.checked()?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let frame = Frame {
        norm: Box::new(move |weights, name| weights.layer_norm(name, hidden, epsilon)),
        ..Frame::rotating(config, heads, 1e-5, rotary(config)?)?
    };
    let bias = config.flag_or("attention_bias", false)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let own = weights.at("self_attn");
        let mut attention = parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?;
        attention.options.window = parts::window(config, None)?;
        let experts = mixture(config, &weights.at("block_sparse_moe"), hidden)?;
        Ok((attention, FeedForward::Experts(Box::new(experts))))
    })?))
}

/// The rotary parameters.
///
/// Reference: the short factors apply to sequences of any length. Only `long_mscale` depends on it, in place of the factor
/// that others compute.
fn rotary(config: &Config) -> Result<RotaryParameters> {
    let Some(own) = RotaryParameters::object(config)? else {
        return RotaryParameters::read(config, 1_000_000.0);
    };
    let kind = own.string("rope_type")?.or(own.string("type")?).unwrap_or("default");
    if kind == "default" {
        return RotaryParameters::read(config, 1_000_000.0);
    }
    if kind != "longrope" {
        let field = if own.has("rope_type") { "rope_type" } else { "type" };
        return Err(parts::wrong(&own, field, "`default` or `longrope`"));
    }
    let attention = own.number("short_mscale")?;
    if own.number("long_mscale")? != attention {
        return Err(parts::wrong(&own, "long_mscale", "the same as `short_mscale`"));
    }
    let factors = own.numbers("short_factor")?;
    let factors = factors.ok_or_else(|| crate::Error::MissingField("rope_scaling.short_factor".into()))?;
    let theta = own.optional_positive("rope_theta")?.or(config.optional_positive("rope_theta")?);
    Ok(RotaryParameters::stretched(theta.unwrap_or(1_000_000.0), factors, attention))
}

fn mixture(config: &Config, weights: &Weights, hidden: usize) -> Result<Experts> {
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let count = config.size("num_local_experts")?;
    let expert = |index: usize| {
        let weights = weights.at("experts").at(index);
        Ok(Mlp {
            gate: Some(weights.linear("w1", hidden, inner, false)?),
            up: weights.linear("w3", hidden, inner, false)?,
            down: weights.linear("w2", inner, hidden, false)?,
            activation,
        })
    };
    let chosen = parts::only_numbers(config, "num_experts_per_tok", &[2])?;
    let jitter = config.number_or("router_jitter_noise", 0.01)?;
    Ok(Experts {
        router: weights.linear("gate", hidden, count, false)?,
        routing: Routing {
            scoring: Scoring::Near { distance: (2.0 * jitter) as f32 },
            ..Routing::softmax(chosen, false)
        },
        routed: (0..count).map(expert).collect::<Result<_>>()?,
        shared: None,
        narrowed: None,
    })
}
