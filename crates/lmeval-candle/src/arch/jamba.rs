//! Jamba: layers of Mamba with attention in some of them, and experts in others.

use super::Architecture;
use super::bamba;
use super::decoder::{FeedForward, Mixer};
use super::mamba::{self, Mamba, Options};
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Experts, Routing};
use crate::weights::Weights;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "mamba_inner_layernorms", true)?;
    let hidden = config.size("hidden_size")?;
    let heads = Heads { kv: config.size_or("num_key_value_heads", 8)?, ..Heads::read(config, hidden)? };
    let heads = heads.checked()?;
    let frame = Frame { last_norm: "final_layernorm", ..Frame::new(config, heads, 1e-6, 10_000.0)? };
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let [attends, chooses] = ["attn", "expert"].map(|kind| is_every(config, kind));
    let (attends, chooses) = (attends?, chooses?);
    let experts = config.first_size(&["num_experts", "num_local_experts"])?;
    let block = |layer: usize, weights: &Weights| {
        let mixer: Box<dyn Mixer> = if attends(layer) {
            let own = weights.at("self_attn");
            Box::new(parts::attention(&own, hidden, heads, false, ("o_proj", false))?)
        } else {
            Box::new(load_mamba(config, &weights.at("mamba"))?)
        };
        let own = weights.at("feed_forward");
        let feed_forward = if chooses(layer) && experts > 1 {
            FeedForward::Experts(Box::new(Experts {
                router: own.linear("router", hidden, experts, false)?,
                routing: Routing::softmax(config.size_or("num_experts_per_tok", 2)?, false),
                routed: parts::gated_experts(&own.at("experts"), experts, hidden, inner, activation)?,
                shared: None,
                narrowed: None,
            }))
        } else {
            FeedForward::Dense(parts::gated(&own, hidden, inner, activation)?)
        };
        Ok((mixer, feed_forward))
    };
    let mut decoder = parts::like_llama_flowing(config, weights, frame, block, bamba::flow)?;
    for block in &mut decoder.blocks {
        block.rotary = None;
    }
    Ok(Box::new(decoder))
}

/// Whether a layer is one of those that `…_layer_period` and `…_layer_offset` describe.
fn is_every(config: &Config, kind: &str) -> Result<impl Fn(usize) -> bool + use<>> {
    let [period, offset] = ["period", "offset"].map(|part| format!("{kind}_layer_{part}"));
    let (default_period, default_offset) = if kind == "attn" { (8, 4) } else { (2, 1) };
    let count = config.size_or(&period, default_period)?;
    let first = config.size_or(&offset, default_offset)?;
    if first >= count {
        return Err(parts::wrong(config, &offset, &format!("less than `{period}`")));
    }
    Ok(move |layer: usize| layer % count == first)
}

/// A layer of Mamba with norms of its factors.
fn load_mamba(config: &Config, weights: &Weights) -> Result<Mamba> {
    let hidden = config.size("hidden_size")?;
    let options = Options {
        hidden,
        inner: config.size_or("mamba_expand", 2)? * hidden,
        state: config.size_or("mamba_d_state", 16)?,
        rank: mamba::rank(config, "mamba_dt_rank", hidden)?,
        length: config.size_or("mamba_d_conv", 4)?,
        bias: config.flag_or("mamba_proj_bias", false)?,
        conv_bias: config.flag_or("mamba_conv_bias", true)?,
        activation: Activation::read(config, "hidden_act", "silu")?,
    };
    let mut mamba = Mamba::load(&options, weights)?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let norm = |name: &str, width: usize| weights.rms_norm(name, width, epsilon, 0.0);
    mamba.norms = Some([
        norm("dt_layernorm", options.rank)?,
        norm("b_layernorm", options.state)?,
        norm("c_layernorm", options.state)?,
    ]);
    Ok(mamba)
}
