//! Hunyuan: LLaMA with query and key norms behind the rotation; dense or with experts.

use lmeval_pycompat::Value;

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Mlp, RotaryParameters, Routing};
use crate::weights::Weights;

/// Builds the dense model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, &|_, weights| Ok(FeedForward::Dense(mlp(config, weights)?)))
}

/// Builds the model with experts.
pub(super) fn build_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, &|layer, weights| {
        Ok(FeedForward::Experts(Box::new(mixture(config, weights, layer)?)))
    })
}

/// Builds the feed-forward part of a layer.
type BuildFeedForward<'a> = &'a dyn Fn(usize, &Weights) -> Result<FeedForward>;

fn build_with(
    config: &Config,
    weights: &Weights,
    feed_forward: BuildFeedForward<'_>,
) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "use_qk_norm", true)?;
    parts::only_flag(config, "use_cla", false)?;
    parts::only_flag(config, "use_rotary_pos_emb", true)?;
    parts::only_flag(config, "mlp_bias", false)?;
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let frame = Frame::rotating(config, heads, 1e-5, rotary(config, heads.width)?)?;
    let bias = config.flag_or("attention_bias", false)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |layer, weights| {
        let own = weights.at("self_attn");
        let mut attention = parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?;
        let norm = |name: &str| own.rms_norm(name, heads.width, epsilon, 0.0);
        attention.head_norms = Some((norm("query_layernorm")?, norm("key_layernorm")?));
        attention.rotates_first = true;
        Ok((attention, feed_forward(layer, &weights.at("mlp"))?))
    })?))
}

/// The rotary parameters. Dynamic scaling with a fixed `alpha` only stretches the base.
fn rotary(config: &Config, width: usize) -> Result<RotaryParameters> {
    let Some(own) = RotaryParameters::object(config)? else {
        return RotaryParameters::read(config, 10_000.0);
    };
    let kind = own.string("rope_type")?.or(own.string("type")?);
    match own.optional_positive("alpha")? {
        Some(alpha) if kind == Some("dynamic") => {
            if width <= 2 {
                return Err(parts::wrong(&own, "alpha", "missing, because heads have two dimensions"));
            }
            let theta = own.optional_positive("rope_theta")?.or(config.optional_positive("rope_theta")?);
            let exponent = width as f64 / (width - 2) as f64;
            Ok(RotaryParameters::plain(theta.unwrap_or(10_000.0) * alpha.powf(exponent)))
        }
        _ => RotaryParameters::read(config, 10_000.0),
    }
}

fn mlp(config: &Config, weights: &Weights) -> Result<Mlp> {
    let sizes = (config.size("hidden_size")?, config.size("intermediate_size")?);
    parts::gated(weights, sizes.0, sizes.1, Activation::read(config, "hidden_act", "silu")?)
}

fn mixture(config: &Config, weights: &Weights, layer: usize) -> Result<Experts> {
    let hidden = config.size("hidden_size")?;
    let inner = config.size("intermediate_size")?;
    for (field, known) in [("moe_intermediate_size", inner), ("num_shared_expert", 1)] {
        if of_layer(config, field, layer)?.is_some_and(|found| found != known) {
            return Err(parts::wrong(config, field, &format!("`{known}` for each layer")));
        }
    }
    parts::only_numbers(config, "moe_layer_num_skipped", &[0])?;
    parts::only_flag(config, "norm_topk_prob", true)?;
    let count = of_layer(config, "num_experts", layer)?.unwrap_or(1);
    let chosen = of_layer(config, "moe_topk", layer)?.unwrap_or(1);
    let activation = Activation::read(config, "hidden_act", "silu")?;
    Ok(Experts {
        router: weights.widened().at("gate").linear("wg", hidden, count, false)?,
        routing: Routing { is_wide: true, ..Routing::softmax(chosen, true) },
        routed: parts::gated_experts(&weights.at("experts"), count, hidden, inner, activation)?,
        shared: Some((mlp(config, &weights.at("shared_mlp"))?, None)),
        narrowed: None,
    })
}

/// A number, or the one of a layer in a list.
fn of_layer(config: &Config, field: &str, layer: usize) -> Result<Option<usize>> {
    match config.get(field) {
        Some(Value::List(_)) => {
            let all = config.numbers(field)?.unwrap_or_default();
            let own = all.get(layer).filter(|number| **number >= 0.0).map(|number| *number as usize);
            let expected = "a number, or a list with one for each layer";
            own.map(Some).ok_or_else(|| parts::wrong(config, field, expected))
        }
        _ => config.optional_size(field),
    }
}
