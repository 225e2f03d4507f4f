//! Attention.

use candle_core::{DType, Tensor};

use super::attention_cpu::RaggedAttention;
use super::linear::Linear;
use super::norm::Norm;
use super::rotary::Angles;
use crate::batch::Batch;
use crate::cache::LayerCache;
use crate::error::Result;

/// How attention scores are computed.
#[derive(Clone, Debug)]
pub(crate) struct AttentionOptions {
    /// Scales the products of queries and keys.
    pub scale: f32,
    /// The sliding window: the number of keys a query attends to, including its own.
    pub window: Option<usize>,
    /// Scores `s` become `cap · tanh(s / cap)`.
    pub softcap: Option<f32>,
    /// ALiBi slopes: `slope · p` is added to the score of the key at position `p`.
    pub slopes: Option<Vec<f32>>,
    /// The same in bfloat16, multiplied with the scale.
    pub coarse_slopes: Option<Vec<f32>>,
}

impl AttentionOptions {
    /// Plain attention: the scale is the inverse square root of the head width.
    pub(crate) fn new(head_width: usize) -> Self {
        let scale = 1.0 / (head_width as f64).sqrt();
        Self { scale: scale as f32, window: None, softcap: None, slopes: None, coarse_slopes: None }
    }

    /// Whether scores depend on key positions.
    pub(super) fn has_biases(&self) -> bool {
        self.slopes.is_some() || self.coarse_slopes.is_some()
    }

    /// The bias of the key at a position.
    pub(super) fn bias(&self, head: usize, position: usize) -> f32 {
        let plain = self.slopes.as_ref().map_or(0.0, |slopes| slopes[head] * position as f32);
        let coarse = self.coarse_slopes.as_ref().map_or(0.0, |slopes| {
            round_to_bf16(round_to_bf16(slopes[head]) * round_to_bf16(position as f32)) * self.scale
        });
        plain + coarse
    }

    /// Applies cap and position bias to the scaled scores of a head. The first score is that of the key at position `first`.
    pub(super) fn adjust(&self, head: usize, first: usize, scores: &mut [f32]) {
        if let Some(cap) = self.softcap {
            for score in scores.iter_mut() {
                *score = cap * (*score / cap).tanh();
            }
        }
        if self.has_biases() {
            for (index, score) in scores.iter_mut().enumerate() {
                *score += self.bias(head, first + index);
            }
        }
    }
}

/// Rounds a non-negative number to bfloat16, ties to even.
fn round_to_bf16(number: f32) -> f32 {
    let bits = number.to_bits();
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

/// Computes attention of a batch's queries `[rows, heads, width]`. First stores its keys and values `[rows, kv heads,
/// width]` in the cache. The result is `[rows, heads · width]`.
pub(crate) fn attend(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    options: &AttentionOptions,
    batch: &Batch,
    cache: &LayerCache,
) -> Result<Tensor> {
    cache.write(batch, keys, values)?;
    let queries = queries.contiguous()?;
    if queries.device().is_cpu() && queries.dtype() == DType::F32 {
        let op = RaggedAttention { batch, options };
        return Ok(queries.apply_op3_no_bwd(cache.keys(), cache.values(), &op)?);
    }
    #[cfg(feature = "cuda")]
    if options.coarse_slopes.is_none()
        && let Some(made) = crate::cuda::attend(&queries, options, batch, cache)?
    {
        return Ok(made);
    }
    batch.padded()?.attend(&queries, options, cache)
}

/// Multi-head attention: projections, optional query and key norms, optional rotation, and an output projection.
#[derive(Debug)]
pub(crate) struct SelfAttention {
    /// The query projection.
    pub query: Linear,
    /// The key projection.
    pub key: Linear,
    /// The value projection.
    pub value: Linear,
    /// The output projection.
    pub output: Linear,
    /// Query and key norms over each head.
    pub head_norms: Option<(Norm, Norm)>,
    /// Query and key norms over all heads at once.
    pub row_norms: Option<(Norm, Norm)>,
    /// Clamps queries, keys and values to this absolute value.
    pub clip: Option<f64>,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key/value heads.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_width: usize,
    /// How scores are computed.
    pub options: AttentionOptions,
}

impl SelfAttention {
    /// Computes the output for rows `[rows, hidden]`, with rotary angles if the layer rotates.
    pub(crate) fn forward(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        let mut queries = self.query.forward(rows)?;
        let mut keys = self.key.forward(rows)?;
        let mut values = self.value.forward(rows)?;
        if let Some((query_norm, key_norm)) = &self.row_norms {
            (queries, keys) = (query_norm.forward(&queries)?, key_norm.forward(&keys)?);
        }
        if let Some(clip) = self.clip {
            queries = queries.clamp(-clip, clip)?;
            keys = keys.clamp(-clip, clip)?;
            values = values.clamp(-clip, clip)?;
        }
        let count = rows.dim(0)?;
        let mut queries = queries.reshape((count, self.heads, self.head_width))?;
        let mut keys = keys.reshape((count, self.kv_heads, self.head_width))?;
        let values = values.reshape((count, self.kv_heads, self.head_width))?;
        if let Some((query_norm, key_norm)) = &self.head_norms {
            (queries, keys) = (query_norm.forward(&queries)?, key_norm.forward(&keys)?);
        }
        if let Some(angles) = angles {
            (queries, keys) = (angles.apply(&queries)?, angles.apply(&keys)?);
        }
        let made = attend(&queries, &keys, &values, &self.options, batch, cache)?;
        Ok(self.output.forward(&made)?)
    }
}
