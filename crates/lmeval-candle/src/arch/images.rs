//! The language models of models that read images, for tasks of text alone.

use lmeval_pycompat::{Dict, Value};

use super::{Architecture, find, llama4, parts, qwen};
use crate::config::Config;
use crate::error::Result;
use crate::weights::Weights;

/// Tensors that only other input than text needs.
const OTHERS: [&str; 6] = [
    "visual",
    "model.visual",
    "vision_model",
    "model.vision_tower",
    "model.multi_modal_projector",
    "image_newline",
];

/// Fields of language models that configurations around them leave out: their classes' defaults.
const DEFAULTS: [(&str, &[(&str, i64)]); 2] = [
    (
        "llama",
        &[
            ("vocab_size", 32_000),
            ("hidden_size", 4096),
            ("intermediate_size", 11_008),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("max_position_embeddings", 2048),
        ],
    ),
    (
        "mistral",
        &[
            ("vocab_size", 32_000),
            ("hidden_size", 4096),
            ("intermediate_size", 14_336),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 8),
        ],
    ),
];

/// Builds the language model of Llama 4.
pub(super) fn build_llama4(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    llama4::build(&text(config, weights)?, weights)
}

/// Builds that of Qwen 2 VL and Qwen 2.5 VL.
pub(super) fn build_qwen2(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let text = text(config, weights)?.with_defaults(&[
        ("rope_theta", Value::Float(1_000_000.0)),
        ("rms_norm_eps", Value::Float(1e-5)),
        ("num_key_value_heads", Value::Int(8)),
        ("max_window_layers", Value::Int(80)),
    ]);
    qwen::build_2(&text, weights)
}

/// Builds that of Qwen 3 VL.
pub(super) fn build_qwen3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let theta = ("rope_theta", Value::Float(500_000.0));
    qwen::build_3(&text(config, weights)?.with_defaults(&[theta]), weights)
}

/// Builds that of Qwen 3 VL with experts.
pub(super) fn build_qwen3_experts(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let text = text(config, weights)?;
    // Reference: the weights of the chosen experts always sum to 1.
    parts::only_flag(&text, "norm_topk_prob", true)?;
    let defaults = [("rope_theta", Value::Float(500_000.0)), ("norm_topk_prob", Value::Bool(true))];
    qwen::build_3_experts(&text.with_defaults(&defaults), weights)
}

/// Builds a language model of any known type: that of Llava and Mistral 3.
pub(super) fn build_any(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let text = text(config, weights)?;
    let kind = text.string("model_type")?.unwrap_or("llama").to_owned();
    let known = DEFAULTS.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, fields)| fields);
    let known: Vec<(&str, Value)> = known.iter().map(|(name, value)| (*name, Value::Int(*value))).collect();
    let text = text.with_defaults(&known).with_defaults(&[("model_type", Value::str(kind))]);
    (find(&text)?.build)(&text, weights)
}

/// The configuration of the language model. Marks tensors as not needed that it does not read.
///
/// Reference: whether the head is tied is said at the top level, in older files inside.
fn text(config: &Config, weights: &Weights) -> Result<Config> {
    for name in OTHERS {
        weights.skip(name);
    }
    // Older files have all fields at the top level.
    let Some(text) = config.object("text_config")? else { return Ok(config.clone()) };
    let tied = [config, &text].map(|config| config.flag_or("tie_word_embeddings", false));
    let [outside, inside] = tied;
    let mut fields = Dict::new();
    fields.insert("tie_word_embeddings", outside? || inside?);
    Ok(text.updated(&Config::from_fields(fields)))
}
