//! Baichuan 1 and 2 as published, without the code that comes with them: LLaMA with fused projections, in the larger models
//! with position biases, and in the second generation with a normalised head.

use candle_core::{D, Tensor};

use super::Architecture;
use super::decoder::FeedForward;
use super::parts::{self, Frame, Heads};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Linear};
use crate::weights::Weights;

/// The size of the second generation's vocabulary.
const SECOND: usize = 125_696;
/// The least length of a row of the head before it is normalised.
const SHORTEST: f64 = 1e-12;

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = Heads::equal(config.size("num_attention_heads")?, hidden)?;
    let frame = Frame::new(config, heads, 1e-6, 10_000.0)?;
    let inner = config.size("intermediate_size")?;
    let activation = Activation::read(config, "hidden_act", "silu")?;
    // Only the configurations of the smaller models have the field.
    let rotates = config.has("max_position_embeddings");
    let is_second = config.has("z_loss_weight") || config.size("vocab_size")? == SECOND;
    let mut decoder = parts::like_llama(config, weights, frame, |_, weights| {
        let own = weights.at("self_attn");
        let (weight, _) = parts::fused(&own, "W_pack", hidden, 3 * hidden, false)?;
        let three = parts::split_three(&weight, None, 1, [hidden; 3])?;
        let output = own.linear("o_proj", hidden, hidden, false)?;
        let mut attention = parts::plain_attention(three, output, heads);
        if !rotates {
            attention.options.slopes = Some(parts::slopes(heads.count));
        }
        let mlp = parts::gated(&weights.at("mlp"), hidden, inner, activation)?;
        Ok((attention, FeedForward::Dense(mlp)))
    })?;
    for block in &mut decoder.blocks {
        block.rotary = block.rotary.filter(|_| rotates);
    }
    if is_second {
        let vocabulary = decoder.shape.vocabulary;
        let head = weights.widened().tensor("lm_head.weight", &[vocabulary, hidden])?;
        decoder.output.head = Linear::new(normalised(&head)?.to_dtype(weights.dtype())?, None)?;
    }
    Ok(Box::new(decoder))
}

/// Scales rows to unit length.
fn normalised(rows: &Tensor) -> Result<Tensor> {
    let length = rows.sqr()?.sum_keepdim(D::Minus1)?.sqrt()?.maximum(SHORTEST)?;
    Ok(rows.broadcast_div(&length)?)
}
