//! LLaMA, and models of its shape: Mistral, SmolLM, Yi.

use candle_core::Tensor;
use candle_nn::{Embedding, Module};

use super::{Architecture, Shape, logits};
use crate::batch::Batch;
use crate::cache::Cache;
use crate::config::Config;
use crate::error::Result;
use crate::layers::{
    Activation, AttentionOptions, Linear, Mlp, Norm, Rotary, RotaryParameters, RotaryStyle, SelfAttention,
};
use crate::weights::Weights;

/// A decoder with root-mean-square norms, rotated queries and keys, and gated feed-forward blocks.
#[derive(Debug)]
struct Llama {
    shape: Shape,
    embedding: Embedding,
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
    rotary: Rotary,
}

#[derive(Debug)]
struct Block {
    attention_norm: Norm,
    attention: SelfAttention,
    mlp_norm: Norm,
    mlp: Mlp,
}

/// Makes the model.
pub(super) fn build(config: &Config, weights: &Weights) -> Result<Box<dyn Architecture>> {
    let hidden = config.size("hidden_size")?;
    let heads = config.size("num_attention_heads")?;
    let kv_heads = config.size_or("num_key_value_heads", heads)?;
    let head_width = config.size_or("head_dim", hidden / heads.max(1))?;
    let shape = Shape {
        layers: config.size("num_hidden_layers")?,
        kv_heads,
        head_width,
        hidden,
        vocabulary: config.size("vocab_size")?,
        positions: None,
    };
    let model = weights.find(&["model", ""], "embed_tokens.weight")?;
    let embedding = model.tensor("embed_tokens.weight", &[shape.vocabulary, hidden])?;
    let blocks = (0..shape.layers).map(|index| block(config, &model.at("layers").at(index), shape, heads));
    Ok(Box::new(Llama {
        shape,
        blocks: blocks.collect::<Result<_>>()?,
        norm: model.rms_norm("norm", hidden, config.number_or("rms_norm_eps", 1e-6)?, 0.0)?,
        head: weights.head("lm_head", &embedding, config.flag_or("tie_word_embeddings", false)?)?,
        rotary: Rotary::new(
            RotaryParameters::read(config, None, 10_000.0)?,
            head_width,
            RotaryStyle::Halves,
        )?,
        embedding: Embedding::new(embedding, hidden),
    }))
}

fn block(config: &Config, weights: &Weights, shape: Shape, heads: usize) -> Result<Block> {
    let Shape { hidden, kv_heads, head_width, .. } = shape;
    let inner = config.size("intermediate_size")?;
    let epsilon = config.number_or("rms_norm_eps", 1e-6)?;
    let attention = weights.at("self_attn");
    let bias = config.flag_or("attention_bias", false)?;
    let mlp = weights.at("mlp");
    let mlp_bias = config.flag_or("mlp_bias", false)?;
    let mut options = AttentionOptions::new(head_width);
    options.window = config.optional_size("sliding_window")?;
    Ok(Block {
        attention_norm: weights.rms_norm("input_layernorm", hidden, epsilon, 0.0)?,
        attention: SelfAttention {
            query: attention.linear("q_proj", hidden, heads * head_width, bias)?,
            key: attention.linear("k_proj", hidden, kv_heads * head_width, bias)?,
            value: attention.linear("v_proj", hidden, kv_heads * head_width, bias)?,
            output: attention.linear("o_proj", heads * head_width, hidden, bias)?,
            head_norms: None,
            row_norms: None,
            heads,
            kv_heads,
            head_width,
            options,
        },
        mlp_norm: weights.rms_norm("post_attention_layernorm", hidden, epsilon, 0.0)?,
        mlp: Mlp {
            gate: Some(mlp.linear("gate_proj", hidden, inner, mlp_bias)?),
            up: mlp.linear("up_proj", hidden, inner, mlp_bias)?,
            down: mlp.linear("down_proj", inner, hidden, mlp_bias)?,
            activation: Activation::read(config, "hidden_act", "silu")?,
        },
    })
}

impl Architecture for Llama {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        let mut rows = self.embedding.forward(batch.tokens())?;
        let angles = self.rotary.at(batch, rows.dtype())?;
        for (index, block) in self.blocks.iter().enumerate() {
            let normed = block.attention_norm.forward(&rows)?;
            rows = (rows + block.attention.forward(&normed, Some(&angles), batch, cache.layer(index)?)?)?;
            rows = (&rows + block.mlp.forward(&block.mlp_norm.forward(&rows)?)?)?;
        }
        Ok(self.norm.forward(&rows)?)
    }

    fn head(&self, rows: &Tensor) -> Result<Tensor> {
        logits(&self.head, rows)
    }

    fn length_boundary(&self) -> Option<usize> {
        self.rotary.boundary()
    }
}
