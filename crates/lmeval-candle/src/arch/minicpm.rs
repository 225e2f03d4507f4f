//! MiniCPM: LLaMA, or latent attention in the third generation, with scaled embeddings, residuals and logits.

use super::Architecture;
use super::decoder::{Decoder, FeedForward, Flow, Mixer};
use super::deepseek;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, LatentSizes};
use crate::weights::Weights;

/// Builds MiniCPM 3.
pub(super) fn build_3(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_flag(config, "mlp_bias", false)?;
    let hidden = config.size("hidden_size")?;
    let heads = config.size("num_attention_heads")?;
    let sizes = LatentSizes {
        heads,
        latent: config.size_or("kv_lora_rank", 256)?,
        plain: config.size_or("qk_nope_head_dim", 64)?,
        rotated: config.size_or("qk_rope_head_dim", 32)?,
        value: config.size_or("v_head_dim", hidden / heads)?,
    };
    let latent = Heads { count: heads, kv: 1, width: sizes.latent + sizes.rotated }.checked()?;
    let frame = Frame { rotated: sizes.rotated, tied: true, ..Frame::new(config, latent, 1e-5, 10_000.0)? };
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let mut decoder = parts::like_llama(config, weights, frame, |_, weights| {
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        let attention = deepseek::attention(config, &weights.at("self_attn"), sizes)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?;
    scale(config, &mut decoder, [12.0, 1.4, 256.0])?;
    Ok(Box::new(decoder))
}

/// Builds MiniCPM 1, 2 and 4 as published, without the code that comes with them.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    parts::only_numbers(config, "num_experts", &[0])?;
    if config.has("sparse_config") {
        return Err(parts::wrong(config, "sparse_config", "missing, because attention is not sparse here"));
    }
    let hidden = config.size("hidden_size")?;
    let heads = Heads::read(config, hidden)?;
    let frame = Frame { tied: true, ..Frame::new(config, heads, 1e-6, 10_000.0)? };
    let inner = config.size("intermediate_size")?;
    let bias = config.flag_or("attention_bias", false)?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    let mut decoder = parts::like_llama(config, weights, frame, |_, weights| {
        let own = weights.at("self_attn");
        let attention = parts::attention(&own, hidden, heads, bias, ("o_proj", bias))?;
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?;
    // The class's own defaults change nothing but the logits, which have none.
    scale(config, &mut decoder, [1.0, 1.0, 1.0])?;
    Ok(Box::new(decoder))
}

/// Scales embeddings, residuals and logits. The defaults are those of `scale_emb`, `scale_depth` and `dim_model_base`; `null`
/// means that the last two change nothing.
fn scale<M: Mixer>(config: &Config, decoder: &mut Decoder<M>, defaults: [f64; 3]) -> Result<()> {
    let hidden = config.size("hidden_size")? as f64;
    let depth = (decoder.blocks.len() as f64).sqrt();
    let read = |field: &str, default: f64, neutral: f64| {
        config.number_or(field, if config.is_null(field) { neutral } else { default })
    };
    decoder.input.scale = Some(config.number_or("scale_emb", defaults[0])?);
    decoder.output.scale = Some(read("dim_model_base", defaults[2], hidden)? / hidden);
    let added = read("scale_depth", defaults[1], depth)? / depth;
    for block in &mut decoder.blocks {
        if let Flow::Sequential { attention, feed_forward } = &mut block.flow {
            attention.scale = Some(added);
            feed_forward.scale = Some(added);
        }
    }
    Ok(())
}
