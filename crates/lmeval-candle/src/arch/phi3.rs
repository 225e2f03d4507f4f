//! Phi 3, 3.5 and 4.

use lmeval_pycompat::Dict;

use super::Architecture;
use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Mlp, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let shape = parts::shape(config, hidden, heads)?;
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.matrix("embed_tokens.weight", [shape.vocabulary, hidden])?;
    let blocks =
        (0..shape.layers.len()).map(|index| block(config, &model.at("layers").at(index), hidden, heads));
    let width = parts::rotated_width(config, heads.width, 1.0)?;
    let rotary = Rotary::new(rotary_parameters(config)?, width, RotaryStyle::Halves)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.rms_norm("norm", hidden, epsilon, 0.0)?, head),
        rotaries: vec![rotary],
    }))
}

/// The rotary parameters. Refuses scaling types that the class does not support.
fn rotary_parameters(config: &Config) -> Result<RotaryParameters> {
    let mut own = RotaryParameters::object(config)?;
    if let Some(given) = &own {
        let field = if given.has("rope_type") { "rope_type" } else { "type" };
        match given.string(field)? {
            None | Some("default" | "longrope") => {}
            // Reference: names in early checkpoints.
            Some("su" | "yarn") => {
                let mut known = Dict::new();
                known.insert("rope_type", "longrope");
                own = Some(given.updated(&Config::from_fields(known)));
            }
            Some(_) => return Err(parts::wrong(given, field, "`default` or `longrope`")),
        }
    }
    let original = config.size_or("original_max_position_embeddings", 4096)?;
    let theta = config.number_or("rope_theta", 10_000.0)?;
    RotaryParameters::read_object(config, own.as_ref(), theta, Some(original))
}

fn block(config: &Config, weights: &Weights, hidden: usize, heads: Heads) -> Result<Block> {
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-5)?;
    let (own, kv) = (heads.count * heads.width, heads.kv * heads.width);
    let projections = weights.at("self_attn");
    let (weight, _) = parts::fused(&projections, "qkv_proj", hidden, own + 2 * kv, false)?;
    let three = parts::split_three(&weight, None, 1, [own, kv, kv])?;
    let mut attention =
        parts::plain_attention(three, projections.linear("o_proj", own, hidden, false)?, heads);
    attention.options.window = parts::window(config, None)?;
    let both = weights.at("mlp").linear("gate_up_proj", hidden, 2 * inner, false)?;
    Ok(Block {
        flow: Flow::Sequential {
            attention: Norms::before(weights.rms_norm("input_layernorm", hidden, epsilon, 0.0)?),
            feed_forward: Norms::before(weights.rms_norm(
                "post_attention_layernorm",
                hidden,
                epsilon,
                0.0,
            )?),
        },
        attention,
        feed_forward: FeedForward::Dense(Mlp {
            gate: Some(both.outputs(0, inner)?),
            up: both.outputs(inner, inner)?,
            down: weights.at("mlp").linear("down_proj", inner, hidden, false)?,
            activation: Activation::read(config, "hidden_act", "silu")?,
        }),
        rotary: Some(0),
    })
}
