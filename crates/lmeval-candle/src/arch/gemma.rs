//! Gemma 1, 2 and 3 (only the language model of Gemma 3).

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::layers::{Activation, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Norm weights are stored minus 1.
const NORM_OFFSET: f64 = 1.0;
/// Indices of the rotary embeddings of full-attention and of sliding-window layers.
const FULL: usize = 0;
const SLIDING: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Generation {
    First,
    /// Norms after each layer, capped scores, and a sliding window in every other layer.
    Second,
    /// Query and key norms instead of caps, and a separate rotary embedding in sliding-window layers.
    Third,
}

/// Builds Gemma 1.
pub(super) fn build_1(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::First)
}

/// Builds Gemma 2.
pub(super) fn build_2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::Second)
}

/// Builds Gemma 3.
pub(super) fn build_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    build(config, weights, Generation::Third)
}

/// Builds the language model of a multimodal Gemma 3.
pub(super) fn build_3_of_images(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let text = config.object("text_config")?.ok_or_else(|| Error::MissingField("text_config".into()))?;
    // Reference: this field is read from the top level, unlike all others.
    let tied = config.flag_or("tie_word_embeddings", true)?;
    build_tied(&text, weights, Generation::Third, tied)
}

fn build(config: &Config, weights: &Weights, generation: Generation) -> Result<Box<dyn Architecture>> {
    build_tied(config, weights, generation, config.flag_or("tie_word_embeddings", true)?)
}

fn build_tied(
    config: &Config,
    weights: &Weights,
    generation: Generation,
    tied: bool,
) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "use_bidirectional_attention", false)?;
    let hidden = config.size("hidden_size")?;
    let heads = heads(config, generation)?;
    let shape = Shape {
        layers: parts::equal_layers(config.size("num_hidden_layers")?, heads)?,
        hidden,
        vocabulary: match generation {
            // Reference: published Gemma 3 configurations omit fields with the class's defaults.
            Generation::Third => config.size_or("vocab_size", 262_208)?,
            _ => config.size("vocab_size")?,
        },
        positions: None,
    };
    let model = weights.find(&parts::PREFIXES, "embed_tokens.weight")?;
    let embedding = model.matrix("embed_tokens.weight", [shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers.len())
        .map(|index| block(config, &model.at("layers").at(index), generation, heads, index));
    let mut input = Input::new(&embedding)?;
    input.scale = Some((hidden as f64).sqrt());
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let head = parts::head(weights, parts::head_name(weights), &embedding, tied)?;
    let mut output = Output::new(model.rms_norm("norm", hidden, epsilon, NORM_OFFSET)?, head);
    output.cap = match generation {
        Generation::First => None,
        Generation::Second => cap(config, "final_logit_softcapping", Some(30.0))?,
        Generation::Third => cap(config, "final_logit_softcapping", None)?,
    };
    Ok(Box::new(Decoder {
        shape,
        input,
        blocks: blocks.collect::<Result<_>>()?,
        output,
        rotaries: rotaries(config, generation, heads)?,
    }))
}

fn heads(config: &Config, generation: Generation) -> Result<Heads> {
    let (count, kv) = match generation {
        Generation::Third => {
            (config.size_or("num_attention_heads", 8)?, config.size_or("num_key_value_heads", 4)?)
        }
        _ => (config.size("num_attention_heads")?, config.size("num_key_value_heads")?),
    };
    Heads { count, kv, width: config.size_or("head_dim", 256)? }.checked()
}

fn rotaries(config: &Config, generation: Generation, heads: Heads) -> Result<Vec<Rotary>> {
    let rotary = |parameters| Rotary::new(parameters, heads.width, RotaryStyle::Halves);
    if generation < Generation::Third {
        return Ok(vec![rotary(RotaryParameters::read(config, 10_000.0)?)?]);
    }
    let theta = ["rope_theta", "rope_local_base_freq"];
    let theta = [config.number_or(theta[0], 1_000_000.0)?, config.number_or(theta[1], 10_000.0)?];
    parts::rotations_by_kind(config, theta)?.into_iter().map(rotary).collect()
}

fn block(
    config: &Config,
    weights: &Weights,
    generation: Generation,
    heads: Heads,
    layer: usize,
) -> Result<Block> {
    let hidden = config.size("hidden_size")?;
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let norm = |name: &str| weights.rms_norm(name, hidden, epsilon, NORM_OFFSET);
    let bias = config.flag_or("attention_bias", false)?;
    let projections = weights.at("self_attn");
    let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", bias))?;
    let options = &mut attention.options;
    if generation > Generation::First {
        options.scale = (1.0 / config.number_or("query_pre_attn_scalar", 256.0)?.sqrt()) as f32;
    }
    let slides = slides(config, generation, layer)?;
    if slides {
        options.window = parts::window(config, Some(4096))?;
    }
    if generation == Generation::Second {
        options.softcap = cap(config, "attn_logit_softcapping", Some(50.0))?.map(|cap| cap as f32);
    }
    if generation == Generation::Third {
        let norm = |name: &str| projections.rms_norm(name, heads.width, epsilon, NORM_OFFSET);
        attention.head_norms = Some((norm("q_norm")?, norm("k_norm")?));
    }
    let flow = if generation == Generation::First {
        Flow::Sequential {
            attention: Norms::before(norm("input_layernorm")?),
            feed_forward: Norms::before(norm("post_attention_layernorm")?),
        }
    } else {
        let around = |before: &str, behind: &str| {
            let (before, behind) = (Some(norm(before)?), Some(norm(behind)?));
            Ok::<_, Error>(Norms { before, behind, scale: None })
        };
        Flow::Sequential {
            attention: around("input_layernorm", "post_attention_layernorm")?,
            feed_forward: around("pre_feedforward_layernorm", "post_feedforward_layernorm")?,
        }
    };
    let activation = activation(config, generation)?;
    Ok(Block {
        flow,
        attention,
        feed_forward: FeedForward::Dense(parts::gated(&weights.at("mlp"), hidden, inner, activation)?),
        rotary: Some(if generation == Generation::Third && slides { SLIDING } else { FULL }),
    })
}

/// Whether a layer has a sliding window.
fn slides(config: &Config, generation: Generation, layer: usize) -> Result<bool> {
    let pattern = match generation {
        Generation::First => return Ok(false),
        Generation::Second => 2,
        Generation::Third => config.size_or("sliding_window_pattern", 6)?.max(1),
    };
    parts::slides(config, layer, |layer| !(layer + 1).is_multiple_of(pattern))
}

fn activation(config: &Config, generation: Generation) -> Result<Activation> {
    if generation > Generation::First {
        return Activation::read(config, "hidden_activation", "gelu_pytorch_tanh");
    }
    match config.string("hidden_act")? {
        // Reference: early configurations say `gelu` but mean the tanh approximation.
        Some("gelu") => Ok(Activation::GeluTanh),
        _ => Activation::read(config, "hidden_act", "gelu_pytorch_tanh"),
    }
}

/// A cap: `null` switches it off, and a missing field means the default.
fn cap(config: &Config, field: &str, default: Option<f64>) -> Result<Option<f64>> {
    let default = default.filter(|_| !config.is_null(field));
    Ok(config.optional_number(field)?.or(default))
}
