//! StarCoder 2 and Nemotron: LLaMA with layer norms and ungated feed-forward layers.

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads, NormBuilder};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Norm};
use crate::weights::Weights;

/// Builds StarCoder 2.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let epsilon = config.number_or("norm_epsilon", 1e-5)?;
    let norm: NormBuilder = Box::new(move |weights, name| weights.layer_norm(name, hidden, epsilon));
    let frame = Frame { norm, tied: true, ..Frame::new(config, heads, epsilon, 10_000.0)? };
    let bias = config.flag_or("use_bias", true)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "gelu_pytorch_tanh")?;
    let window = parts::window(config, None)?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let projections = weights.at("self_attn");
        let mut attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", bias))?;
        attention.options.window = window;
        let names = ["c_fc", "c_proj"];
        let mlp = parts::plain_mlp(&weights.at("mlp"), names, [hidden, inner], bias, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?))
}

/// Builds Nemotron, whose norm weights are stored minus 1.
pub(super) fn build_nemotron(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let epsilon = config.number_or("norm_eps", 1e-5)?;
    let norm: NormBuilder = Box::new(move |weights, name| {
        match weights.layer_norm(name, hidden, epsilon)? {
            // Reference: the sum is rounded to the data type of the computation.
            Norm::Layer { weight, bias, epsilon } => {
                Ok(Norm::Layer { weight: (weight + 1.0)?, bias, epsilon })
            }
            other => Ok(other),
        }
    });
    let rotated = parts::rotated_width(config, heads.width, 0.5)?;
    let frame = Frame { rotated, norm, ..Frame::new(config, heads, epsilon, 10_000.0)? };
    let bias = config.flag_or("attention_bias", false)?;
    let mlp_bias = config.flag_or("mlp_bias", false)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "relu2")?;
    Ok(Box::new(parts::like_llama(config, weights, frame, |_, weights| {
        let projections = weights.at("self_attn");
        let attention = parts::attention(&projections, hidden, heads, bias, ("o_proj", bias))?;
        let names = ["up_proj", "down_proj"];
        let mlp = parts::plain_mlp(&weights.at("mlp"), names, [hidden, inner], mlp_bias, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?))
}
