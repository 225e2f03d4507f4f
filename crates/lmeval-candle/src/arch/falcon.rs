//! Falcon.

use super::decoder::{Block, Decoder, FeedForward, Flow, Input, Norms, Output};
use super::parts::{self, Heads};
use super::{Architecture, Shape};
use crate::config::Config;
use crate::error::Result;
use crate::layers::{Activation, Rotary, RotaryParameters, RotaryStyle};
use crate::weights::Weights;

/// The layout of the fused projection, and the norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One key and one value shared by all heads, after all queries.
    MultiQuery,
    /// Query, key and value interleaved per head.
    MultiHead,
    /// Groups of queries, each followed by the key and value they share.
    NewDecoder,
}

impl Kind {
    fn read(config: &Config) -> Result<Self> {
        if config.flag_or("new_decoder_architecture", false)? {
            return Ok(Self::NewDecoder);
        }
        Ok(if config.flag_or("multi_query", true)? { Self::MultiQuery } else { Self::MultiHead })
    }
}

/// Builds the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let alibi = config.flag_or("alibi", false)?;
    let kind = Kind::read(config)?;
    let hidden = parts::hidden(config)?;
    let count = config.first_size(&["num_attention_heads", "n_head"])?;
    let kv = match kind {
        Kind::MultiQuery => 1,
        Kind::MultiHead => count,
        Kind::NewDecoder => config.size_or("num_kv_heads", count)?,
    };
    let heads = Heads { kv, ..Heads::equal(count, hidden)? }.checked()?;
    let shape = Shape {
        layers: parts::equal_layers(config.first_size(&["num_hidden_layers", "n_layer"])?, heads)?,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: None,
    };
    let model = weights.find(&["transformer", ""], "word_embeddings.weight")?;
    let embedding = model.matrix("word_embeddings.weight", [shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers.len()).map(|index| block(config, &model.at("h").at(index), kind, heads));
    let rotaries = if alibi {
        Vec::new()
    } else {
        let parameters = RotaryParameters::read(config, 10_000.0)?;
        vec![Rotary::new(parameters, heads.width, RotaryStyle::Halves)?]
    };
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let head = parts::head(weights, "lm_head", &embedding, config.flag_or("tie_word_embeddings", true)?)?;
    Ok(Box::new(Decoder {
        shape,
        input: Input::new(&embedding)?,
        blocks: blocks.collect::<Result<_>>()?,
        output: Output::new(model.layer_norm("ln_f", hidden, epsilon)?, head),
        rotaries,
    }))
}

fn block(config: &Config, weights: &Weights, kind: Kind, heads: Heads) -> Result<Block> {
    let Heads { count, kv, width } = heads;
    let hidden = count * width;
    let inner = config.size_or("ffn_hidden_size", 4 * hidden)?;
    let bias = config.flag_or("bias", false)?;
    let projections = weights.at("self_attention");
    let (weight, fused_bias) =
        parts::fused(&projections, "query_key_value", hidden, (count + 2 * kv) * width, bias)?;
    let (groups, sizes) = match kind {
        Kind::MultiQuery => (1, [hidden, width, width]),
        Kind::MultiHead => (count, [width; 3]),
        Kind::NewDecoder => (kv, [count / kv * width, width, width]),
    };
    let three = parts::split_three(&weight, fused_bias.as_ref(), groups, sizes)?;
    let mut attention =
        parts::plain_attention(three, projections.linear("dense", hidden, hidden, bias)?, heads);
    let alibi = config.flag_or("alibi", false)?;
    if alibi {
        attention.options.coarse_slopes = Some(parts::slopes(count));
    }
    let activation = Activation::read(config, "activation", "gelu")?;
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    let mlp = parts::plain_mlp(&weights.at("mlp"), names, [hidden, inner], bias, activation)?;
    Ok(Block {
        flow: flow(config, weights, kind, hidden)?,
        attention,
        feed_forward: FeedForward::Dense(mlp),
        rotary: if alibi { None } else { Some(0) },
    })
}

fn flow(config: &Config, weights: &Weights, kind: Kind, hidden: usize) -> Result<Flow> {
    let epsilon = config.number_or("layer_norm_epsilon", 1e-5)?;
    let norm = |name: &str| weights.layer_norm(name, hidden, epsilon);
    let parallel = config.flag_or("parallel_attn", true)?;
    if kind == Kind::NewDecoder {
        parts::only_flag(config, "parallel_attn", true)?;
        return match config.size_or("num_ln_in_parallel_attn", 2)? {
            1 => Ok(Flow::Parallel { attention: norm("input_layernorm")?, feed_forward: None }),
            2 => Ok(Flow::Parallel { attention: norm("ln_attn")?, feed_forward: Some(norm("ln_mlp")?) }),
            _ => Err(parts::wrong(config, "num_ln_in_parallel_attn", "1 or 2")),
        };
    }
    if parallel {
        return Ok(Flow::Parallel { attention: norm("input_layernorm")?, feed_forward: None });
    }
    Ok(Flow::Sequential {
        attention: Norms::before(norm("input_layernorm")?),
        feed_forward: Norms::before(norm("post_attention_layernorm")?),
    })
}
