//! Nemotron H: each layer is one of Mamba 2, attention, a feed-forward layer and experts.

use candle_core::Tensor;

use super::Architecture;
use super::decoder::{FeedForward, Mixer};
use super::deepseek;
use super::mamba::{self, Frame};
use super::mamba2::{GatedNorm, Mamba2, Options, Sizes};
use super::parts::{self, Heads};
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Angles, Experts, Mlp};
use crate::weights::Weights;

/// The kinds of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Scan,
    Attention,
    Dense,
    Experts,
}

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    for field in ["attention_bias", "mamba_proj_bias"] {
        parts::only_flag(config, field, false)?;
    }
    if config.has("sliding_window") {
        return Err(parts::wrong(config, "sliding_window", "`null`"));
    }
    let kinds = kinds(config)?;
    let hidden = config.size("hidden_size")?;
    let heads = Heads {
        count: config.size_or("num_attention_heads", 32)?,
        kv: config.size_or("num_key_value_heads", 8)?,
        width: config.size_or("head_dim", config.size_or("attention_head_dim", 128)?)?,
    };
    let heads = heads.checked()?;
    weights.skip("mtp");
    // Reference: residual sums have the type of the model, whatever `residual_in_fp32` says.
    let frame = Frame { layers: parts::checked_layers(kinds.len())?, tied: false, is_wide: false };
    mamba::build_with(config, weights, frame, &|layer, weights| -> Result<Box<dyn Mixer>> {
        Ok(match kinds[layer] {
            Kind::Scan => Box::new(Mamba2::load(&options(config)?, weights)?),
            Kind::Attention => Box::new(parts::attention(weights, hidden, heads, false, ("o_proj", false))?),
            Kind::Dense => {
                let inner = config.size("intermediate_size")?;
                Box::new(Alone(FeedForward::Dense(mlp(config, weights, inner, hidden)?)))
            }
            Kind::Experts => {
                Box::new(Alone(FeedForward::Experts(Box::new(mixture(config, weights, hidden)?))))
            }
        })
    })
}

/// The kinds of all layers: a list, or a string with a letter for each.
fn kinds(config: &Config) -> Result<Vec<Kind>> {
    if let Some(pattern) = config.string("hybrid_override_pattern")?
        && !config.has("layers_block_type")
    {
        let kind = |letter: char| match letter {
            'M' => Ok(Kind::Scan),
            '*' => Ok(Kind::Attention),
            '-' => Ok(Kind::Dense),
            'E' => Ok(Kind::Experts),
            _ => Err(parts::wrong(config, "hybrid_override_pattern", "a string of `M`, `*`, `-` and `E`")),
        };
        return pattern.chars().map(kind).collect();
    }
    let known = config.first_strings(&["layers_block_type", "layer_types"])?;
    if known.is_empty() {
        return Err(crate::Error::MissingField("layers_block_type".into()));
    }
    let kind = |name: &str| match name {
        "mamba" | "linear_attention" => Ok(Kind::Scan),
        "attention" | "full_attention" => Ok(Kind::Attention),
        "mlp" => Ok(Kind::Dense),
        "moe" => Ok(Kind::Experts),
        _ => {
            let expected = "a list of `mamba`, `attention`, `mlp` and `moe`";
            Err(parts::wrong(config, "layers_block_type", expected))
        }
    };
    known.into_iter().map(kind).collect()
}

fn options(config: &Config) -> Result<Options> {
    // Reference: the older name wins.
    let size = |older: &str, name: &str, default: usize| match config.optional_size(older)? {
        Some(size) => Ok(size),
        None => config.size_or(name, default),
    };
    let sizes = Sizes {
        hidden: config.size("hidden_size")?,
        heads: config.size_or("mamba_num_heads", 128)?,
        width: config.size_or("mamba_head_dim", 64)?,
        groups: size("mamba_n_groups", "n_groups", 8)?,
        state: config.size_or("ssm_state_size", 128)?,
        length: size("mamba_d_conv", "conv_kernel", 4)?,
    };
    let bias = config.flag_or("use_bias", false)?;
    let conv_bias = config.flag_or("mamba_conv_bias", config.flag_or("use_conv_bias", true)?)?;
    // Reference: the least time is that of the initialisation, whatever `time_step_limit` says.
    let least = config.number_or("mamba_dt_min", config.number_or("time_step_min", 0.001)?)?;
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    Ok(Options {
        sizes: sizes.checked()?,
        biases: [bias, conv_bias, bias],
        activation: Activation::read(config, "mamba_hidden_act", "silu")?,
        limits: [least, f64::INFINITY],
        norm: GatedNorm { epsilon, groups: sizes.groups, norm_first: false },
    })
}

fn mlp(config: &Config, weights: &Weights, inner: usize, hidden: usize) -> Result<Mlp> {
    let activation = Activation::read(config, "mlp_hidden_act", "relu2")?;
    let bias = config.flag_or("mlp_bias", false)?;
    parts::plain_mlp(weights, ["up_proj", "down_proj"], [hidden, inner], bias, activation)
}

fn mixture(config: &Config, weights: &Weights, hidden: usize) -> Result<Experts> {
    let activation = Activation::read(config, "mlp_hidden_act", "relu2")?;
    let bias = config.flag_or("mlp_bias", false)?;
    let count = config.first_size(&["n_routed_experts", "num_local_experts"])?;
    let inner = config.size("moe_intermediate_size")?;
    let shared = config.size("moe_shared_expert_intermediate_size")?;
    let narrowed = match config.optional_size("moe_latent_size")? {
        None => None,
        Some(width) => Some((
            weights.linear("fc1_latent_proj", hidden, width, bias)?,
            weights.linear("fc2_latent_proj", width, hidden, bias)?,
            width,
        )),
    };
    let width = narrowed.as_ref().map_or(hidden, |(_, _, width)| *width);
    let expert = |index: usize| {
        let own = weights.at("experts").at(index);
        parts::plain_mlp(&own, ["up_proj", "down_proj"], [width, inner], false, activation)
    };
    Ok(Experts {
        router: weights.widened().linear("gate", hidden, count, false)?,
        routing: deepseek::routing_3(config, &weights.at("gate"), 1.0, [1, 1])?,
        routed: (0..count).map(expert).collect::<Result<_>>()?,
        shared: Some((mlp(config, &weights.at("shared_experts"), shared, hidden)?, None)),
        narrowed: narrowed.map(|(narrow, widen, _)| (narrow, widen)),
    })
}

/// A feed-forward layer in the place of a mixer.
#[derive(Debug)]
struct Alone(FeedForward);

impl Mixer for Alone {
    fn stores(&self) -> LayerShape {
        LayerShape::default()
    }

    fn forward(&self, rows: &Tensor, _: Option<&Angles>, _: &Batch, _: &LayerCache) -> Result<Tensor> {
        self.0.forward(rows)
    }
}
