//! Qwen 2, 2.5 and 3, dense and as mixtures of experts.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Routing};
use crate::weights::Weights;

/// The differences between generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// Biases of the query, key and value projections.
    Second,
    /// Query and key norms.
    Third,
}

/// Builds Qwen 2 and 2.5.
pub(super) fn build_2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::Second, false)
}

/// Builds Qwen 3.
pub(super) fn build_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::Third, false)
}

/// Builds Qwen 2 MoE.
pub(super) fn build_2_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::Second, true)
}

/// Builds Qwen 3 MoE.
pub(super) fn build_3_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::Third, true)
}

fn build(
    config: &Config,
    weights: &Weights,
    generation: Generation,
    experts: bool,
) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = heads(config, generation, experts, hidden)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let (bias, output_bias) = match generation {
        // Reference: the dense class does not read the field.
        Generation::Second => (!experts || config.flag_or("qkv_bias", true)?, false),
        Generation::Third => [config.flag_or("attention_bias", false)?; 2].into(),
    };
    let frame = Frame::new(config, heads, 1e-6, 10_000.0)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |index, weights| {
        let projections = weights.at("self_attn");
        let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", output_bias))?;
        if generation == Generation::Third {
            let norm = |name: &str| projections.rms_norm(name, heads.width, epsilon, 0.0);
            attention.head_norms = Some((norm("q_norm")?, norm("k_norm")?));
        }
        attention.options.window = window(config, generation, experts, index)?;
        let feed_forward = if experts && sparse(config, index)? {
            FeedForward::Experts(Box::new(mixture(config, &weights.at("mlp"), generation, hidden)?))
        } else {
            let activation = Activation::read(config, "hidden_act", "silu")?;
            let inner = config.size("intermediate_size")?;
            FeedForward::Dense(parts::gated(&weights.at("mlp"), hidden, inner, activation)?)
        };
        Ok((attention, feed_forward))
    })?))
}

fn heads(config: &Config, generation: Generation, experts: bool, hidden: usize) -> Result<Heads> {
    // Reference: the default of dense Qwen 3 only.
    if generation == Generation::Third && !experts && !config.has("head_dim") {
        let count = config.size("num_attention_heads")?;
        return Heads { count, kv: config.size_or("num_key_value_heads", count)?, width: 128 }.checked();
    }
    Heads::read(config, hidden)
}

/// The window of a layer.
fn window(config: &Config, generation: Generation, experts: bool, layer: usize) -> Result<Option<usize>> {
    if !config.flag_or("use_sliding_window", false)? {
        let is_read = (generation, experts) != (Generation::Third, true);
        if is_read && parts::slides(config, layer, |_| false)? {
            return Err(parts::wrong(
                config,
                "layer_types",
                "without sliding windows, because `use_sliding_window` is not set",
            ));
        }
        return Ok(None);
    }
    let bound = config.size_or("max_window_layers", 28)?;
    let slides = match (generation, experts) {
        // Reference: Qwen 3 MoE has a sliding window in every layer, Qwen 2 MoE in every other one of the first layers.
        (Generation::Third, true) => true,
        (Generation::Second, true) => {
            parts::slides(config, layer, |layer| layer.is_multiple_of(2) && layer < bound)?
        }
        (_, false) => parts::slides(config, layer, |layer| layer >= bound)?,
    };
    if slides { parts::window(config, Some(4096)) } else { Ok(None) }
}

/// Whether a layer has experts.
pub(super) fn sparse(config: &Config, layer: usize) -> Result<bool> {
    let dense = config.numbers("mlp_only_layers")?.unwrap_or_default();
    let step = config.size_or("decoder_sparse_step", 1)?;
    if step == 0 {
        return Err(parts::wrong(config, "decoder_sparse_step", "a number above zero"));
    }
    Ok(!dense.contains(&(layer as f64)) && (layer + 1).is_multiple_of(step))
}

/// The experts of a layer.
fn mixture(config: &Config, weights: &Weights, generation: Generation, hidden: usize) -> Result<Experts> {
    let normalise = config.flag_or("norm_topk_prob", false)?;
    experts(config, weights, generation == Generation::Second, normalise, hidden)
}

/// Experts with or without one that reads every token.
pub(super) fn experts(
    config: &Config,
    weights: &Weights,
    has_shared: bool,
    normalise: bool,
    hidden: usize,
) -> Result<Experts> {
    let inner = config.size("moe_intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let count = config.first_size(&["num_experts", "num_local_experts"])?;
    let shared = if has_shared {
        let inner = config.size("shared_expert_intermediate_size")?;
        let gate = weights.linear("shared_expert_gate", hidden, 1, false)?;
        Some((parts::gated(&weights.at("shared_expert"), hidden, inner, activation)?, Some(gate)))
    } else {
        None
    };
    Ok(Experts {
        router: weights.linear("gate", hidden, count, false)?,
        routed: parts::gated_experts(&weights.at("experts"), count, hidden, inner, activation)?,
        routing: Routing::softmax(config.size("num_experts_per_tok")?, normalise),
        shared,
        narrowed: None,
    })
}
