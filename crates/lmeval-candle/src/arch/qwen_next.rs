//! Qwen 3 Next: linear attention by the gated delta rule, with full attention in every fourth layer.

use candle_core::{D, DType, Tensor};
use candle_nn::ops;

use super::Architecture;
use super::decoder::{FeedForward, Mixer};
use super::parts::{self, Frame, Heads};
use super::qwen;
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, CausalConv, DeltaInputs, Linear, Norm, delta_rule, softplus};
use crate::weights::Weights;

/// Norm weights are stored minus 1, except those of linear attention.
const NORM_OFFSET: f64 = 1.0;
/// Added to the square of the length of queries and keys.
const LENGTH_EPSILON: f64 = 1e-6;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let count = config.size("num_attention_heads")?;
    let kv = config.size_or("num_key_value_heads", 2)?;
    let heads = Heads { count, kv, width: config.size_or("head_dim", 256)? }.checked()?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let frame = Frame {
        rotated: parts::rotated_width(config, heads.width, 0.25)?,
        norm: Box::new(move |weights, name| weights.rms_norm(name, hidden, epsilon, NORM_OFFSET)),
        ..Frame::new(config, heads, 1e-6, 10_000.0)?
    };
    weights.skip("mtp");
    Ok(Box::new(parts::like_llama(config, weights, frame, |layer, weights| {
        let mixer: Box<dyn Mixer> = if is_linear(config, layer)? {
            Box::new(DeltaNet::load(config, &weights.at("linear_attn"), hidden)?)
        } else {
            let bias = config.flag_or("attention_bias", false)?;
            let own = weights.at("self_attn");
            let width = count * heads.width;
            let projections = [
                own.linear("q_proj", hidden, 2 * width, bias)?,
                own.linear("k_proj", hidden, kv * heads.width, bias)?,
                own.linear("v_proj", hidden, kv * heads.width, bias)?,
            ];
            let output = own.linear("o_proj", width, hidden, bias)?;
            let mut attention = parts::plain_attention(projections, output, heads);
            attention.is_gated = true;
            let norm = |name: &str| own.rms_norm(name, heads.width, epsilon, NORM_OFFSET);
            attention.head_norms = Some((norm("q_norm")?, norm("k_norm")?));
            Box::new(attention)
        };
        let mlp = weights.at("mlp");
        let feed_forward = if qwen::sparse(config, layer)? {
            let normalise = config.flag_or("norm_topk_prob", true)?;
            FeedForward::Experts(Box::new(qwen::experts(config, &mlp, true, normalise, hidden)?))
        } else {
            let activation = Activation::read(config, "hidden_act", "silu")?;
            let inner = config.size("intermediate_size")?;
            FeedForward::Dense(parts::gated(&mlp, hidden, inner, activation)?)
        };
        Ok((mixer, feed_forward))
    })?))
}

/// Whether a layer has linear attention.
fn is_linear(config: &Config, layer: usize) -> Result<bool> {
    let kinds = config.strings("layer_types")?;
    match kinds.get(layer) {
        Some(&"linear_attention") => Ok(true),
        Some(&"full_attention") => Ok(false),
        None if kinds.is_empty() => {
            let interval = config.size_or("full_attention_interval", 4)?;
            if interval == 0 {
                return Err(parts::wrong(config, "full_attention_interval", "a number above zero"));
            }
            Ok(!(layer + 1).is_multiple_of(interval))
        }
        _ => {
            let expected = "a list of `linear_attention` and `full_attention`, one for each layer";
            Err(parts::wrong(config, "layer_types", expected))
        }
    }
}

/// Linear attention.
#[derive(Debug)]
struct DeltaNet {
    /// Projects to query, key, values and gates of each key head.
    projection: Linear,
    /// Projects to rates and times of the values of each key head.
    factors: Linear,
    conv: CausalConv,
    activation: Activation,
    /// Added to times, and the logarithm of the decay per unit of time, both in float32.
    time_bias: Tensor,
    rates: Tensor,
    norm: Norm,
    output: Linear,
    sizes: Sizes,
}

/// The sizes of linear attention.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    key_heads: usize,
    heads: usize,
    key: usize,
    value: usize,
}

impl DeltaNet {
    fn load(config: &Config, weights: &Weights, hidden: usize) -> Result<Self> {
        let sizes = Sizes {
            key_heads: config.size("linear_num_key_heads")?,
            heads: config.size("linear_num_value_heads")?,
            key: config.size("linear_key_head_dim")?,
            value: config.size("linear_value_head_dim")?,
        };
        let Sizes { key_heads, heads, key, value } = sizes;
        if !heads.is_multiple_of(key_heads) {
            let expected = format!("a multiple of the {key_heads} key heads");
            return Err(parts::wrong(config, "linear_num_value_heads", &expected));
        }
        DeltaInputs::state(heads, key, value)?;
        let channels = 2 * key_heads * key + heads * value;
        let length = config.size_or("linear_conv_kernel_dim", 4)?;
        let kernels = weights.widened().tensor("conv1d.weight", &[channels, 1, length])?;
        let exact = weights.widened();
        let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
        Ok(Self {
            projection: weights.linear(
                "in_proj_qkvz",
                hidden,
                2 * (key_heads * key + heads * value),
                false,
            )?,
            factors: weights.linear("in_proj_ba", hidden, 2 * heads, false)?,
            conv: CausalConv::new(&kernels.squeeze(1)?, None)?,
            activation: Activation::read(config, "hidden_act", "silu")?,
            time_bias: exact.tensor("dt_bias", &[heads])?,
            rates: exact.tensor("A_log", &[heads])?.exp()?.neg()?,
            norm: exact.rms_norm("norm", value, epsilon, 0.0)?,
            output: weights.linear("out_proj", heads * value, hidden, false)?,
            sizes,
        })
    }
}

impl Mixer for DeltaNet {
    fn stores(&self) -> LayerShape {
        let Sizes { heads, key, value, .. } = self.sizes;
        let state = crate::cache::StateShape { groups: heads, size: key * value };
        LayerShape::states([self.conv.state(), state])
    }

    fn forward(
        &self,
        rows: &Tensor,
        _: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        let Sizes { key_heads, heads, key, value } = self.sizes;
        let count = rows.dim(0)?;
        let group = heads / key_heads;
        let projected = self.projection.forward(rows)?;
        let projected = projected.reshape((count, key_heads, 2 * (key + group * value)))?;
        let part = |first: usize, width: usize| -> Result<Tensor> {
            Ok(projected.narrow(2, first, width)?.contiguous()?.reshape((count, key_heads * width))?)
        };
        let mixed = [part(0, key)?, part(key, key)?, part(2 * key, group * value)?];
        let gates = part(2 * key + group * value, group * value)?.reshape((count, heads, value))?;
        let mixed = self.conv.forward(&Tensor::cat(&mixed, 1)?, batch, cache.states(0)?)?;
        let mixed = self.activation.forward(&mixed)?.to_dtype(DType::F32)?;
        let width = key_heads * key;
        let factors =
            self.factors.forward(rows)?.to_dtype(DType::F32)?.reshape((count, key_heads, 2 * group))?;
        let factor = |first: usize| -> Result<Tensor> {
            Ok(factors.narrow(2, first, group)?.contiguous()?.reshape((count, heads))?)
        };
        let times = softplus(&factor(group)?.broadcast_add(&self.time_bias)?)?;
        let inputs = DeltaInputs {
            queries: (unit(&mixed.narrow(1, 0, width)?, key_heads, key)? / (key as f64).sqrt())?,
            keys: unit(&mixed.narrow(1, width, width)?, key_heads, key)?,
            values: mixed
                .narrow(1, 2 * width, heads * value)?
                .reshape((count, heads, value))?
                .contiguous()?,
            decays: times.broadcast_mul(&self.rates)?.exp()?,
            rates: ops::sigmoid(&factor(0)?)?,
        };
        let made = delta_rule(&inputs, batch, cache.states(1)?)?.reshape((count, heads, value))?;
        let gates = gates.to_dtype(DType::F32)?;
        let made = Activation::Silu.gated(&gates, &self.norm.forward(&made)?)?;
        Ok(self.output.forward(&made.reshape((count, heads * value))?.to_dtype(rows.dtype())?)?)
    }
}

/// Scales the heads of `[rows, heads · width]` to unit length, as `[rows, heads, width]`.
fn unit(rows: &Tensor, heads: usize, width: usize) -> Result<Tensor> {
    let rows = rows.reshape((rows.dim(0)?, heads, width))?;
    let length = (rows.sqr()?.sum_keepdim(D::Minus1)? + LENGTH_EPSILON)?.sqrt()?;
    Ok(rows.broadcast_div(&length)?)
}
