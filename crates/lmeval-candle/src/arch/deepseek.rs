//! DeepSeek V2 and V3: latent attention and, after the first layers, experts.

use candle_core::Tensor;

use super::Architecture;
use super::decoder::{Decoder, FeedForward, Mixer};
use super::parts::{self, Frame, Heads};
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{
    Activation, Angles, AttentionOptions, Experts, Groups, LatentAttention, LatentSizes, Normalise, PerHead,
    QueryProjection, RotaryParameters, RotaryStyle, Routing, Scoring,
};
use crate::weights::Weights;

/// The epsilon of the norms inside attention, which have no field in the configuration.
const EPSILON: f64 = 1e-6;

impl Mixer for LatentAttention {
    fn stores(&self) -> LayerShape {
        self.sizes.layer()
    }

    fn forward(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        self.attend(rows, angles, batch, cache)
    }
}

/// Builds V2.
pub(super) fn build_2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_names(config, "scoring_func", &["softmax"])?;
    // Reference: `transformers` ignores it, other code does not.
    parts::only_flag(config, "norm_topk_prob", false)?;
    let method = parts::only_names(config, "topk_method", &["greedy", "group_limited_greedy"])?;
    let grouped = method == "group_limited_greedy";
    let dense = config.size_or("first_k_dense_replace", 0)?;
    build(config, weights, RotaryStyle::Neighbours, &|layer| Ok(layer < dense), &|_| {
        let groups = if grouped { Some(groups(config, [0, 0], 1)?) } else { None };
        let scale = config.number_or("routed_scaling_factor", 1.0)? as f32;
        let routing = Routing::softmax(config.size("num_experts_per_tok")?, false);
        Ok(Routing { groups, scale, is_wide: true, ..routing })
    })
}

/// Builds V3.
pub(super) fn build_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_names(config, "scoring_func", &["sigmoid"])?;
    parts::only_names(config, "topk_method", &["noaux_tc"])?;
    let style = style(config)?;
    let dense = config.size_or("first_k_dense_replace", 3)?;
    build(config, weights, style, &|layer| Ok(layer < dense), &|gate| routing_3(config, gate, 2.5, [8, 4]))
}

/// Builds GLM 4 MoE Lite: V3 with other defaults.
pub(super) fn build_glm_lite(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_names(config, "topk_method", &["noaux_tc"])?;
    let style = style(config)?;
    let kinds = config.strings("mlp_layer_types")?;
    let is_dense = |layer: usize| match kinds.get(layer) {
        None if kinds.is_empty() => Ok(layer == 0),
        Some(&"dense") => Ok(true),
        Some(&"sparse") => Ok(false),
        _ => {
            Err(parts::wrong(config, "mlp_layer_types", "a list of `dense` and `sparse`, one for each layer"))
        }
    };
    build(config, weights, style, &is_dense, &|gate| routing_3(config, gate, 1.8, [1, 1]))
}

/// How rotated dimensions are paired.
fn style(config: &Config) -> Result<RotaryStyle> {
    let interleaved = config.flag_or("rope_interleave", true)?;
    Ok(if interleaved { RotaryStyle::Neighbours } else { RotaryStyle::Halves })
}

/// The routing of V3, which several models have taken over. The defaults are the factor of the weights, and the number of
/// groups and of those chosen.
pub(super) fn routing_3(
    config: &Config,
    gate: &Weights,
    scale: f64,
    default_groups: [usize; 2],
) -> Result<Routing> {
    let count = experts(config)?;
    let normalise = config.flag_or("norm_topk_prob", true)?;
    Ok(Routing {
        scoring: Scoring::Sigmoid,
        correction: Some(parts::exact_numbers(gate, "e_score_correction_bias", count)?),
        groups: Some(groups(config, default_groups, 2)?),
        normalise: if normalise { Normalise::Sum(1e-20) } else { Normalise::Never },
        scale: config.number_or("routed_scaling_factor", scale)? as f32,
        is_wide: true,
        ..Routing::softmax(config.size("num_experts_per_tok")?, false)
    })
}

/// The number of experts to choose from.
fn experts(config: &Config) -> Result<usize> {
    config.first_size(&["n_routed_experts", "num_experts", "num_local_experts"])
}

/// The groups of experts, each of which counts as its `best` experts.
fn groups(config: &Config, default: [usize; 2], best: usize) -> Result<Groups> {
    let experts = experts(config)?;
    let count = config.size_or("n_group", default[0])?;
    let chosen = config.size_or("topk_group", default[1])?;
    if count == 0 || !experts.is_multiple_of(count) || experts / count < best {
        return Err(parts::wrong(config, "n_group", &format!("a divisor of {experts} experts")));
    }
    if chosen > count || config.size("num_experts_per_tok")? > chosen * (experts / count) {
        return Err(parts::wrong(config, "topk_group", "enough of the groups for the experts of a token"));
    }
    Ok(Groups { count, chosen, best })
}

/// Builds the router's part of a layer from the weights of the gate.
type BuildRouting<'a> = &'a dyn Fn(&Weights) -> Result<Routing>;

fn build(
    config: &Config,
    weights: &Weights,
    style: RotaryStyle,
    is_dense: &dyn Fn(usize) -> Result<bool>,
    routing: BuildRouting<'_>,
) -> Result<Box<dyn Architecture>> {
    parts::only_numbers(config, "moe_layer_freq", &[1])?;
    parts::only_flag(config, "mlp_bias", false)?;
    let sizes = sizes(config)?;
    let hidden = config.size("hidden_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let heads = Heads { count: sizes.heads, kv: 1, width: sizes.latent + sizes.rotated }.checked()?;
    let frame = Frame { rotated: sizes.rotated, style, ..Frame::new(config, heads, 1e-6, 10_000.0)? };
    let decoder: Decoder<LatentAttention> = parts::like_llama(config, weights, frame, |index, weights| {
        let mlp = weights.at("mlp");
        let feed_forward = if is_dense(index)? {
            let inner = config.size("intermediate_size")?;
            FeedForward::Dense(parts::gated(&mlp, hidden, inner, activation)?)
        } else {
            FeedForward::Experts(Box::new(mixture(config, &mlp, activation, routing(&mlp.at("gate"))?)?))
        };
        Ok((attention(config, &weights.at("self_attn"), sizes)?, feed_forward))
    })?;
    parts::skip_predictors(config, weights)?;
    Ok(Box::new(decoder))
}

fn sizes(config: &Config) -> Result<LatentSizes> {
    let heads = config.size("num_attention_heads")?;
    let kv = config.size_or("num_key_value_heads", heads)?;
    if kv != heads {
        return Err(parts::wrong(config, "num_key_value_heads", &format!("the number of heads, {heads}")));
    }
    Ok(LatentSizes {
        heads,
        latent: config.size("kv_lora_rank")?,
        plain: config.size("qk_nope_head_dim")?,
        rotated: config.size("qk_rope_head_dim")?,
        value: config.size("v_head_dim")?,
    })
}

/// Latent attention with the names of DeepSeek.
pub(super) fn attention(config: &Config, weights: &Weights, sizes: LatentSizes) -> Result<LatentAttention> {
    let LatentSizes { heads, latent, plain, rotated, value } = sizes;
    let hidden = config.size("hidden_size")?;
    let bias = config.flag_or("attention_bias", false)?;
    let width = plain + rotated;
    let query = match config.optional_size("q_lora_rank")? {
        None => QueryProjection::Direct(weights.linear("q_proj", hidden, heads * width, false)?),
        Some(rank) => QueryProjection::Narrow(
            weights.linear("q_a_proj", hidden, rank, bias)?,
            weights.rms_norm("q_a_layernorm", rank, EPSILON, 0.0)?,
            weights.linear("q_b_proj", rank, heads * width, false)?,
        ),
    };
    let both = weights.tensor("kv_b_proj.weight", &[heads * (plain + value), latent])?;
    let both = both.reshape((heads, plain + value, latent))?;
    let options = AttentionOptions::new(width);
    Ok(LatentAttention {
        query,
        compress: weights.linear("kv_a_proj_with_mqa", hidden, latent + rotated, bias)?,
        norm: weights.rms_norm("kv_a_layernorm", latent, EPSILON, 0.0)?,
        to_latent: PerHead::new(&both.narrow(1, 0, plain)?)?,
        from_latent: PerHead::new(&both.narrow(1, plain, value)?.transpose(1, 2)?)?,
        output: weights.linear("o_proj", heads * value, hidden, bias)?,
        sizes,
        options: AttentionOptions { scale: options.scale * sharpening(config)? as f32, ..options },
    })
}

/// The factor of attention scores with scaled rotary embeddings.
fn sharpening(config: &Config) -> Result<f64> {
    let Some(own) = RotaryParameters::object(config)? else { return Ok(1.0) };
    let kind = own.string("rope_type")?.or(own.string("type")?).unwrap_or("default");
    let weight = own.number_or("mscale_all_dim", 0.0)?;
    let factor = own.number_or("factor", 1.0)?;
    if kind == "default" || factor <= 1.0 {
        return Ok(1.0);
    }
    Ok((0.1 * weight * factor.ln() + 1.0).powi(2))
}

/// The experts of a layer, with those that read every token.
pub(super) fn mixture(
    config: &Config,
    weights: &Weights,
    activation: Activation,
    routing: Routing,
) -> Result<Experts> {
    let hidden = config.size("hidden_size")?;
    let inner = config.size("moe_intermediate_size")?;
    let count = experts(config)?;
    let shared = match config.optional_size("n_shared_experts")? {
        None | Some(0) => None,
        Some(shared) => {
            Some((parts::gated(&weights.at("shared_experts"), hidden, shared * inner, activation)?, None))
        }
    };
    Ok(Experts {
        router: weights.widened().linear("gate", hidden, count, false)?,
        routing,
        routed: parts::gated_experts(&weights.at("experts"), count, hidden, inner, activation)?,
        shared,
        narrowed: None,
    })
}
