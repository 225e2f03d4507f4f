//! GLM 4: the classes `Glm`, `Glm4` and `Glm4Moe`.

use super::Architecture;
use super::decoder::{FeedForward, Flow, Norms};
use super::deepseek;
use super::parts::{self, Frame, Heads, NormBuilder};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp, RotaryStyle};
use crate::weights::Weights;

/// Builds models of the class `Glm`.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, |weights, norm| {
        Ok(Flow::Sequential {
            attention: Norms::before(norm(weights, "input_layernorm")?),
            feed_forward: Norms::before(norm(weights, "post_attention_layernorm")?),
        })
    })
}

/// Builds models of the class `Glm4`, which also have norms after both layers.
pub(super) fn build_4(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build_with(config, weights, |weights, norm| {
        let around = |before: &str, behind: &str| {
            let (before, behind) = (Some(norm(weights, before)?), Some(norm(weights, behind)?));
            Ok::<_, crate::Error>(Norms { before, behind, scale: None })
        };
        Ok(Flow::Sequential {
            attention: around("input_layernorm", "post_self_attn_layernorm")?,
            feed_forward: around("post_attention_layernorm", "post_mlp_layernorm")?,
        })
    })
}

/// Builds models of the class `Glm4Moe`: LLaMA with query and key norms and the experts of DeepSeek V3.
pub(super) fn build_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_names(config, "topk_method", &["noaux_tc"])?;
    parts::only_names(config, "scoring_func", &["sigmoid"])?;
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let rotated = parts::rotated_width(config, heads.width, 0.5)?;
    let frame = Frame { rotated, ..Frame::new(config, heads, 1e-5, 10_000.0)? };
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let bias = config.flag_or("attention_bias", false)?;
    let normed = config.flag_or("use_qk_norm", false)?;
    let dense = config.size_or("first_k_dense_replace", 1)?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    parts::skip_predictors(config, weights)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |index, weights| {
        let projections = weights.at("self_attn");
        let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", false))?;
        if normed {
            let norm = |name: &str| projections.rms_norm(name, heads.width, epsilon, 0.0);
            attention.head_norms = Some((norm("q_norm")?, norm("k_norm")?));
        }
        let mlp = weights.at("mlp");
        let feed_forward = if index < dense {
            let inner = config.size("intermediate_size")?;
            FeedForward::Dense(parts::gated(&mlp, hidden, inner, activation)?)
        } else {
            let routing = deepseek::routing_3(config, &mlp.at("gate"), 1.0, [1, 1])?;
            FeedForward::Experts(Box::new(deepseek::mixture(config, &mlp, activation, routing)?))
        };
        Ok((attention, feed_forward))
    })?))
}

fn build_with(
    config: &Config,
    weights: &Weights,
    flow: impl Fn(&Weights, &NormBuilder) -> Result<Flow>,
) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let count = config.size("num_attention_heads")?;
    let kv = config.size_or("num_key_value_heads", 2)?;
    let heads = Heads { count, kv, width: config.size_or("head_dim", 128)? }.checked()?;
    let rotated = parts::rotated_width(config, heads.width, 0.5)?;
    let frame = Frame::new(config, heads, 1.5625e-7, 10_000.0)?;
    let frame = Frame { rotated, style: RotaryStyle::Neighbours, ..frame };
    let inner = config.size("intermediate_size")?;
    let bias = config.flag_or("attention_bias", true)?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let block = |_: usize, weights: &Weights| {
        let mlp = weights.at("mlp");
        let both = mlp.linear("gate_up_proj", hidden, 2 * inner, false)?;
        let feed_forward = FeedForward::Dense(Mlp {
            gate: Some(both.outputs(0, inner)?),
            up: both.outputs(inner, inner)?,
            down: mlp.linear("down_proj", inner, hidden, false)?,
            activation,
        });
        let projections = weights.at("self_attn");
        Ok((parts::attention(&projections, hidden, heads, bias, ("o_proj", false))?, feed_forward))
    };
    Ok(Box::new(parts::like_llama_flowing(config, weights, frame, block, flow)?))
}
