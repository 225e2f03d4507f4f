//! Attention.

use candle_core::{DType, Tensor};

use super::attention_cpu::RaggedAttention;
use super::linear::Linear;
use super::norm::Norm;
use super::rotary::Angles;
use crate::batch::Batch;
use crate::cache::LayerCache;
use crate::error::Result;

/// How scores are made.
#[derive(Clone, Debug)]
pub struct AttentionOptions {
    /// What products of queries and keys are multiplied with.
    pub scale: f32,
    /// How many keys a query sees, its own included; all before it without.
    pub window: Option<usize>,
    /// Scores `s` become `cap · tanh(s / cap)`.
    pub softcap: Option<f32>,
    /// What is added to the score of the key at position `p`, for each head: `slope · p`.
    pub slopes: Option<Vec<f32>>,
    /// The same with slopes, positions and products in 16 bits, which are then multiplied with the scale.
    pub coarse_slopes: Option<Vec<f32>>,
}

impl AttentionOptions {
    /// Plain attention: scores are divided by the root of the heads' width.
    pub fn new(head_width: usize) -> Self {
        let scale = 1.0 / (head_width as f64).sqrt();
        Self { scale: scale as f32, window: None, softcap: None, slopes: None, coarse_slopes: None }
    }

    /// Whether something is added for the positions of keys.
    pub(super) fn has_biases(&self) -> bool {
        self.slopes.is_some() || self.coarse_slopes.is_some()
    }

    /// What is added to the score of the key at a position.
    pub(super) fn bias(&self, head: usize, position: usize) -> f32 {
        let plain = self.slopes.as_ref().map_or(0.0, |slopes| slopes[head] * position as f32);
        let coarse = self
            .coarse_slopes
            .as_ref()
            .map_or(0.0, |slopes| coarse(coarse(slopes[head]) * coarse(position as f32)) * self.scale);
        plain + coarse
    }

    /// Applies what comes after the scale to the scores of a head; the first score is that of the key at `first`.
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

/// A number that is not negative, rounded to the 16 bits of `bfloat16`, to the even one of two that are as near.
fn coarse(number: f32) -> f32 {
    let bits = number.to_bits();
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

/// Attention of the rows of a batch, `[rows, heads, width]`, whose keys and values `[rows, kv heads, width]` go into
/// the cache first. The result is `[rows, heads · width]`.
pub fn attend(
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

/// The usual attention: projections, perhaps norms of queries and keys, perhaps a rotation, and an output projection.
#[derive(Debug)]
pub struct SelfAttention {
    /// Makes queries.
    pub query: Linear,
    /// Makes keys.
    pub key: Linear,
    /// Makes values.
    pub value: Linear,
    /// Makes the output.
    pub output: Linear,
    /// A norm of queries and one of keys, over each head.
    pub head_norms: Option<(Norm, Norm)>,
    /// A norm of queries and one of keys, over all heads at once.
    pub row_norms: Option<(Norm, Norm)>,
    /// How far from zero queries, keys and values may be.
    pub clip: Option<f64>,
    /// The number of heads.
    pub heads: usize,
    /// The number of heads of keys and values.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_width: usize,
    /// How scores are made.
    pub options: AttentionOptions,
}

impl SelfAttention {
    /// The output of rows `[rows, hidden]`; `angles` are those of the rows, where the model rotates.
    pub fn forward(
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
