//! Granite 4, whose layers are Mamba 2 or attention, and the experts of Granite 3.

use super::Architecture;
use super::decoder::{FeedForward, Flow, Mixer};
use super::mamba2::{Mamba2, Options};
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Linear, Mlp, Routing, Scoring};
use crate::weights::{Stacking, Weights};

/// Builds Granite 4.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let kinds = config.first_strings(&["layer_types", "layers_block_type"])?;
    let rotates = match config.string("position_embedding_type")? {
        Some("rope") => true,
        None | Some("nope") => false,
        Some(_) => return Err(parts::wrong(config, "position_embedding_type", "`rope` or `nope`")),
    };
    let scanned = (config.number_or("mamba_expand", 2.0)? * hidden as f64) as usize;
    let heads = Heads::read(config, hidden)?;
    build_with(config, weights, rotates, 1024, &|layer, weights| {
        let attends = match kinds.get(layer) {
            Some(&("attention" | "full_attention")) => true,
            Some(&("mamba" | "linear_attention")) => false,
            None if kinds.is_empty() => false,
            _ => return Err(parts::wrong(config, "layer_types", "a list of `mamba` and `attention`")),
        };
        if attends {
            return attention(config, weights, heads);
        }
        let mut options = Options::read(config, scanned)?;
        options.norm.epsilon = config.number_or("rms_norm_eps", 1e-6)?;
        Ok(Box::new(Mamba2::load(&options, &weights.at("mamba"))?))
    })
}

/// Builds Granite 3 with experts, and with or without one that reads every token.
pub(super) fn build_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let heads = Heads::read(config, config.size("hidden_size")?)?;
    build_with(config, weights, true, 0, &|_, weights| attention(config, weights, heads))
}

fn attention(config: &Config, weights: &Weights, heads: Heads) -> Result<Box<dyn Mixer>> {
    let hidden = config.size("hidden_size")?;
    let bias = config.flag_or("attention_bias", false)?;
    let own = weights.at("self_attn");
    let mut attention = parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?;
    attention.options.scale = config.number_or("attention_multiplier", 1.0)? as f32;
    Ok(Box::new(attention))
}

/// Builds the mixer of a layer.
type BuildMixer<'a> = &'a dyn Fn(usize, &Weights) -> Result<Box<dyn Mixer>>;

fn build_with(
    config: &Config,
    weights: &Weights,
    rotates: bool,
    shared: usize,
    mixer: BuildMixer<'_>,
) -> Result<Box<dyn Architecture>> {
    parts::only_names(config, "normalization_function", &["rmsnorm"])?;
    let hidden = config.size("hidden_size")?;
    let frame = Frame::new(config, Heads::read(config, hidden)?, 1e-6, 10_000.0)?;
    let block = |layer: usize, weights: &Weights| {
        Ok((mixer(layer, weights)?, feed_forward(config, weights, hidden, shared)?))
    };
    let mut decoder = parts::like_llama(config, weights, frame, block)?;
    let scaling = config.number_or("logits_scaling", 1.0)?;
    if scaling == 0.0 {
        return Err(parts::wrong(config, "logits_scaling", "non-zero"));
    }
    decoder.input.scale = Some(config.number_or("embedding_multiplier", 1.0)?);
    decoder.output.scale = Some(1.0 / scaling);
    let added = config.number_or("residual_multiplier", 1.0)?;
    for block in &mut decoder.blocks {
        block.rotary = block.rotary.filter(|_| rotates);
        if let Flow::Sequential { attention, feed_forward } = &mut block.flow {
            attention.scale = Some(added);
            feed_forward.scale = Some(added);
        }
    }
    Ok(Box::new(decoder))
}

/// The feed-forward part of a layer. `shared` is the default width of the expert that reads every token.
fn feed_forward(config: &Config, weights: &Weights, hidden: usize, shared: usize) -> Result<FeedForward> {
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let shared = match config.size_or("shared_intermediate_size", shared)? {
        0 => None,
        inner => {
            let own = weights.at("shared_mlp");
            let both = own.linear("input_linear", hidden, 2 * inner, false)?;
            Some(fused(&both, own.linear("output_linear", inner, hidden, false)?, inner, activation)?)
        }
    };
    let count = config.size_or("num_local_experts", 8)?;
    match (shared, count) {
        (Some(shared), 0) => Ok(FeedForward::Dense(shared)),
        (None, 0) => {
            Err(parts::wrong(config, "shared_intermediate_size", "above zero, or there must be experts"))
        }
        (shared, _) => {
            let experts = mixture(config, &weights.at("block_sparse_moe"), count, activation)?;
            Ok(FeedForward::Experts(Box::new(Experts {
                shared: shared.map(|shared| (shared, None)),
                ..experts
            })))
        }
    }
}

/// A feed-forward layer whose gate and up projections are one.
fn fused(both: &Linear, down: Linear, inner: usize, activation: Activation) -> Result<Mlp> {
    Ok(Mlp { gate: Some(both.outputs(0, inner)?), up: both.outputs(inner, inner)?, down, activation })
}

fn mixture(config: &Config, weights: &Weights, count: usize, activation: Activation) -> Result<Experts> {
    let hidden = config.size("hidden_size")?;
    let inner = config.size("intermediate_size")?;
    let all = |name: &str, shape: [usize; 3]| weights.at(name).stacked("weight", shape, Stacking::Matrices);
    let both = all("input_linear", [count, 2 * inner, hidden])?;
    let down = all("output_linear", [count, hidden, inner])?;
    let experts = both
        .into_iter()
        .zip(down)
        .map(|(both, down)| fused(&Linear::new(both, None)?, Linear::new(down, None)?, inner, activation));
    Ok(Experts {
        router: weights.at("router").linear("layer", hidden, count, false)?,
        routing: Routing {
            scoring: Scoring::SoftmaxOfChosen,
            ..Routing::softmax(config.size_or("num_experts_per_tok", 2)?, false)
        },
        routed: experts.collect::<Result<_>>()?,
        shared: None,
        narrowed: None,
    })
}
