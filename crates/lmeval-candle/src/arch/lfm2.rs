//! LFM 2: short gated convolutions, with attention in some layers; dense or with experts.

use candle_core::Tensor;

use super::Architecture;
use super::decoder::{FeedForward, Flow, Mixer, Norms};
use super::parts::{self, Frame, Heads};
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, CausalConv, Experts, Linear, Mlp, Normalise, Routing, Scoring};
use crate::weights::Weights;

/// Builds the dense model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let inner = inner_width(config)?;
    build_with(config, weights, &|_, weights| {
        Ok(FeedForward::Dense(mlp(weights, config.size("hidden_size")?, inner)?))
    })
}

/// Builds the model with experts.
pub(super) fn build_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let dense = config.size_or("num_dense_layers", 2)?;
    build_with(config, weights, &|layer, weights| {
        if layer < dense {
            return Ok(FeedForward::Dense(mlp(weights, hidden, config.size("intermediate_size")?)?));
        }
        Ok(FeedForward::Experts(Box::new(mixture(config, weights, hidden)?)))
    })
}

/// Builds the feed-forward part of a layer.
type BuildFeedForward<'a> = &'a dyn Fn(usize, &Weights) -> Result<FeedForward>;

fn build_with(
    config: &Config,
    weights: &Weights,
    feed_forward: BuildFeedForward<'_>,
) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    for field in ["block_dim", "conv_dim", "conv_dim_out"] {
        parts::only_numbers(config, field, &[hidden])?;
    }
    for field in ["block_use_swiglu", "use_pos_enc"] {
        parts::only_flag(config, field, true)?;
    }
    let heads = Heads { kv: config.size_or("num_key_value_heads", 8)?, ..Heads::read(config, hidden)? };
    let heads = heads.checked()?;
    let epsilon = config.number_or("norm_eps", 1e-5)?;
    let frame = Frame {
        // Reference: the older name wins.
        tied: config.flag_or("tie_embedding", config.flag_or("tie_word_embeddings", true)?)?,
        norm: Box::new(move |weights, name| weights.rms_norm(name, hidden, epsilon, 0.0)),
        last_norm: "embedding_norm",
        ..Frame::new(config, heads, 1e-5, 1_000_000.0)?
    };
    let block = |layer: usize, weights: &Weights| {
        let mixer: Box<dyn Mixer> = if attends(config, layer)? {
            let own = weights.at("self_attn");
            let mut attention = parts::attention(&own, hidden, heads, false, ("out_proj", false))?;
            let norm = |name: &str| own.rms_norm(name, heads.width, epsilon, 0.0);
            attention.head_norms = Some((norm("q_layernorm")?, norm("k_layernorm")?));
            Box::new(attention)
        } else {
            Box::new(ShortConv::load(config, &weights.at("conv"), hidden)?)
        };
        Ok((mixer, feed_forward(layer, &weights.at("feed_forward"))?))
    };
    Ok(Box::new(parts::like_llama_flowing(config, weights, frame, block, |weights, norm| {
        Ok(Flow::Sequential {
            attention: Norms::before(norm(weights, "operator_norm")?),
            feed_forward: Norms::before(norm(weights, "ffn_norm")?),
        })
    })?))
}

/// Whether a layer has attention.
fn attends(config: &Config, layer: usize) -> Result<bool> {
    let kinds = config.strings("layer_types")?;
    match kinds.get(layer) {
        Some(&"full_attention") => Ok(true),
        Some(&"conv") => Ok(false),
        // Reference: without either field, all layers have attention.
        None if kinds.is_empty() => {
            let known = config.numbers("full_attn_idxs")?;
            Ok(known.is_none_or(|known| known.contains(&(layer as f64))))
        }
        _ => {
            let expected = "a list of `full_attention` and `conv`, one for each layer";
            Err(parts::wrong(config, "layer_types", expected))
        }
    }
}

/// The inner width of dense layers, which the configuration may describe by a rule.
fn inner_width(config: &Config) -> Result<usize> {
    let width = config.first_size(&["block_ff_dim", "intermediate_size"])?;
    if !config.flag_or("block_auto_adjust_ff_dim", true)? {
        return Ok(width);
    }
    let width = 2 * width / 3;
    if config.is_null("block_ffn_dim_multiplier") {
        return Ok(width);
    }
    let factor = config.number_or("block_ffn_dim_multiplier", 1.0)?;
    let multiple = config.size_or("block_multiple_of", 256)?.max(1);
    Ok(((factor * width as f64) as usize).next_multiple_of(multiple))
}

fn mlp(weights: &Weights, hidden: usize, inner: usize) -> Result<Mlp> {
    Ok(Mlp {
        gate: Some(weights.linear("w1", hidden, inner, false)?),
        up: weights.linear("w3", hidden, inner, false)?,
        down: weights.linear("w2", inner, hidden, false)?,
        activation: Activation::Silu,
    })
}

fn mixture(config: &Config, weights: &Weights, hidden: usize) -> Result<Experts> {
    let inner = config.size("moe_intermediate_size")?;
    let count = config.size("num_experts")?;
    let corrects = config.flag_or("use_expert_bias", true)?;
    let correction = corrects.then(|| parts::exact_numbers(weights, "expert_bias", count));
    let normalises = config.flag_or("norm_topk_prob", true)?;
    let experts = weights.at("experts");
    Ok(Experts {
        router: weights.linear("gate", hidden, count, false)?,
        routing: Routing {
            scoring: Scoring::Sigmoid,
            correction: correction.transpose()?,
            normalise: if normalises { Normalise::Sum(1e-6) } else { Normalise::Never },
            scale: config.number_or("routed_scaling_factor", 1.0)? as f32,
            ..Routing::softmax(config.size_or("num_experts_per_tok", 4)?, false)
        },
        routed: (0..count).map(|index| mlp(&experts.at(index), hidden, inner)).collect::<Result<_>>()?,
        shared: None,
        narrowed: None,
    })
}

/// A convolution between two gates.
#[derive(Debug)]
struct ShortConv {
    /// Projects to both gates and the rows.
    projection: Linear,
    conv: CausalConv,
    output: Linear,
    width: usize,
}

impl ShortConv {
    fn load(config: &Config, weights: &Weights, width: usize) -> Result<Self> {
        let bias = config.flag_or("conv_bias", false)?;
        let length = config.size_or("conv_L_cache", 3)?;
        let wide = weights.widened();
        let kernels = wide.tensor("conv.weight", &[width, 1, length])?.squeeze(1)?;
        let added = if bias { Some(wide.tensor("conv.bias", &[width])?) } else { None };
        Ok(Self {
            projection: weights.linear("in_proj", width, 3 * width, bias)?,
            conv: CausalConv::new(&kernels, added)?,
            output: weights.linear("out_proj", width, width, bias)?,
            width,
        })
    }
}

impl Mixer for ShortConv {
    fn stores(&self) -> LayerShape {
        LayerShape::states([self.conv.state()])
    }

    fn forward(
        &self,
        rows: &Tensor,
        _: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        let projected = self.projection.forward(rows)?;
        let part = |index: usize| projected.narrow(1, index * self.width, self.width)?.contiguous();
        let made = self.conv.forward(&(part(0)? * part(2)?)?, batch, cache.states(0)?)?;
        Ok(self.output.forward(&(part(1)? * made)?)?)
    }
}
