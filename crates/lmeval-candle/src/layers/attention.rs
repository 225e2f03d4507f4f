//! Attention.

use candle_core::{DType, Tensor};

use super::attention_cpu::RaggedAttention;
use super::linear::Linear;
use super::norm::Norm;
use super::rotary::Angles;
use crate::batch::Batch;
use crate::cache::{LayerCache, RowCache};
use crate::error::Result;

/// How attention scores are computed.
#[derive(Clone, Debug)]
pub(crate) struct AttentionOptions {
    /// Scales the products of queries and keys.
    pub scale: f32,
    /// The sliding window: the number of keys a query attends to, including its own.
    pub window: Option<usize>,
    /// The length of chunks: a query attends to keys of its own chunk only.
    pub chunk: Option<usize>,
    /// Whether queries also attend to the keys behind them.
    pub sees_all: bool,
    /// A score per head that takes part in the softmax but has no key.
    pub sinks: Option<Vec<f32>>,
    /// Biases by the distance of query and key.
    pub distances: Option<Distances>,
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
        Self {
            scale: scale as f32,
            window: None,
            chunk: None,
            sees_all: false,
            sinks: None,
            distances: None,
            softcap: None,
            slopes: None,
            coarse_slopes: None,
        }
    }

    /// The keys that a query attends to, among all keys of its segment.
    pub(super) fn keys_of(&self, query: usize, all: usize) -> std::ops::Range<usize> {
        let window = self.window.map_or(0, |window| (query + 1).saturating_sub(window));
        let chunk = self.chunk.map_or(0, |chunk| query - query % chunk);
        window.max(chunk)..if self.sees_all { all } else { query + 1 }
    }

    /// The score without a key of a head; minus infinity if there is none.
    pub(super) fn sink(&self, head: usize) -> f32 {
        self.sinks.as_ref().map_or(f32::NEG_INFINITY, |sinks| sinks[head])
    }

    /// Whether scores depend on positions.
    pub(super) fn has_biases(&self) -> bool {
        self.slopes.is_some() || self.coarse_slopes.is_some() || self.distances.is_some()
    }

    /// The bias of a key.
    pub(super) fn bias(&self, head: usize, query: usize, position: usize) -> f32 {
        if let Some(distances) = &self.distances {
            return distances.bias(head, query, position);
        }
        let plain = self.slopes.as_ref().map_or(0.0, |slopes| slopes[head] * position as f32);
        let coarse = self.coarse_slopes.as_ref().map_or(0.0, |slopes| {
            round_to_bf16(round_to_bf16(slopes[head]) * round_to_bf16(position as f32)) * self.scale
        });
        plain + coarse
    }

    /// Applies cap and position bias to the scaled scores of a head and a query. The first score is that of the key at
    /// position `first`.
    pub(super) fn adjust(&self, head: usize, query: usize, first: usize, scores: &mut [f32]) {
        if let Some(cap) = self.softcap {
            for score in scores.iter_mut() {
                *score = cap * (*score / cap).tanh();
            }
        }
        if self.has_biases() {
            for (index, score) in scores.iter_mut().enumerate() {
                *score += self.bias(head, query, first + index);
            }
        }
    }
}

/// Rounds a non-negative number to bfloat16, ties to even.
fn round_to_bf16(number: f32) -> f32 {
    let bits = number.to_bits();
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

/// Biases by the distance of query and key.
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    /// The bias of each head, from the key `most` positions behind the query to the one `most` positions before it.
    biases: Vec<f32>,
    /// The distance from which the bias does not change.
    most: usize,
}

impl Distances {
    /// Biases by bucket, `[heads, buckets]`: half of the buckets hold one distance each, the others grow exponentially up to
    /// the distance `most`. With `both_ways`, keys behind the query have half of the buckets for themselves.
    pub(crate) fn new(by_bucket: &[Vec<f32>], most: usize, both_ways: bool) -> Self {
        let biases = by_bucket.iter().flat_map(|biases| {
            let behind = (1..=most).rev().map(|distance| (distance, true));
            let distances = behind.chain((0..=most).map(|distance| (distance, false)));
            distances
                .map(|(distance, behind)| biases[bucket(distance, behind, biases.len(), most, both_ways)])
        });
        Self { biases: biases.collect(), most }
    }

    fn bias(&self, head: usize, query: usize, key: usize) -> f32 {
        let distance = (query + self.most).saturating_sub(key).min(2 * self.most);
        self.biases[head * (2 * self.most + 1) + distance]
    }
}

/// The bucket of a key at a distance from the query, behind it or not.
fn bucket(distance: usize, behind: bool, buckets: usize, most: usize, both_ways: bool) -> usize {
    let count = if both_ways { buckets / 2 } else { buckets };
    let first = if both_ways && behind { count } else { 0 };
    let distance = if behind && !both_ways { 0 } else { distance };
    let exact = count / 2;
    if distance < exact {
        return first + distance;
    }
    // Reference: in float32.
    let part = (distance as f32 / exact as f32).ln() / (most as f64 / exact as f64).ln() as f32;
    first + (exact + (part * (count - exact) as f32) as usize).min(count - 1)
}

/// Computes attention of a batch's queries `[rows, heads, width]` to the keys in the cache. The result is `[rows, heads ·
/// value width]`.
pub(crate) fn attend(
    queries: &Tensor,
    options: &AttentionOptions,
    batch: &Batch,
    cache: &RowCache,
) -> Result<Tensor> {
    let queries = queries.contiguous()?;
    if queries.device().is_cpu() && queries.dtype() == DType::F32 {
        let op = RaggedAttention { batch, options, value_width: cache.value_width() };
        return Ok(queries.apply_op3_no_bwd(cache.keys(), cache.values(), &op)?);
    }
    #[cfg(feature = "cuda")]
    if let Some(made) = crate::cuda::attend(&queries, options, batch, cache)? {
        return Ok(made);
    }
    batch.padded()?.attend(&queries, options, cache)
}

/// Scales queries by `weight · ln(1 + ⌊(position + first) / step⌋) + 1`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Temperature {
    /// The number of the first position.
    pub first: f32,
    /// The number of positions with the same scale.
    pub step: f32,
    /// Scales the logarithm.
    pub weight: f32,
}

impl Temperature {
    fn apply(self, queries: &Tensor, batch: &Batch) -> Result<Tensor> {
        let scale = |position: &u32| {
            self.weight * ((*position as f32 + self.first) / self.step).floor().ln_1p() + 1.0
        };
        let scales: Vec<f32> = batch.positions().iter().map(scale).collect();
        let scales = Tensor::from_vec(scales, (batch.rows(), 1, 1), batch.device())?;
        Ok(queries.broadcast_mul(&scales.to_dtype(queries.dtype())?)?)
    }
}

/// Multi-head attention: projections, optional query and key norms, optional rotation, and an output projection.
#[derive(Debug)]
pub(crate) struct SelfAttention {
    /// The query projection.
    pub query: Linear,
    /// Whether the query projection has a gate of the output behind the query of each head.
    pub is_gated: bool,
    /// The key projection.
    pub key: Linear,
    /// The value projection.
    pub value: Linear,
    /// The three side by side, on GPUs.
    #[cfg(feature = "cuda")]
    pub joined: Option<Linear>,
    /// The output projection.
    pub output: Linear,
    /// Query and key norms over each head.
    pub head_norms: Option<(Norm, Norm)>,
    /// Whether these norms come behind the rotation.
    pub rotates_first: bool,
    /// Scales queries by their positions.
    pub temperature: Option<Temperature>,
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
    pub(crate) fn attend(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if let Some(made) = self.attend_joined(rows, angles, batch, cache)? {
            return Ok(made);
        }
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
        let mut gate = None;
        if self.is_gated {
            let both = queries.reshape((count, self.heads, 2 * self.head_width))?;
            gate = Some(both.narrow(2, self.head_width, self.head_width)?.contiguous()?);
            queries = both.narrow(2, 0, self.head_width)?.contiguous()?;
        }
        let queries = queries.reshape((count, self.heads, self.head_width))?;
        let keys = keys.reshape((count, self.kv_heads, self.head_width))?;
        let values = values.reshape((count, self.kv_heads, self.head_width))?;
        let cache = cache.rows()?;
        let rotated = match angles {
            Some(angles) => self.rotate_and_store([&queries, &keys, &values], angles, batch, cache)?,
            None => None,
        };
        let queries = match rotated {
            Some(queries) => queries,
            None => self.finish_heads([queries, keys, values], angles, batch, cache)?,
        };
        let mut made = attend(&queries, &self.options, batch, cache)?;
        if let Some(gate) = gate {
            made = (&made * candle_nn::ops::sigmoid(&gate)?.reshape(made.shape())?)?;
        }
        Ok(self.output.forward(&made)?)
    }

    /// Normalises and rotates heads, and stores keys and values. Returns the queries.
    fn finish_heads(
        &self,
        [mut queries, mut keys, values]: [Tensor; 3],
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &RowCache,
    ) -> Result<Tensor> {
        let norm = |(queries, keys): (Tensor, Tensor)| match &self.head_norms {
            Some((query_norm, key_norm)) => Ok((query_norm.forward(&queries)?, key_norm.forward(&keys)?)),
            None => Ok::<_, candle_core::Error>((queries, keys)),
        };
        if !self.rotates_first {
            (queries, keys) = norm((queries, keys))?;
        }
        if let Some(angles) = angles {
            (queries, keys) = (angles.apply(&queries)?, angles.apply(&keys)?);
        }
        if self.rotates_first {
            (queries, keys) = norm((queries, keys))?;
        }
        if let Some(temperature) = self.temperature {
            queries = temperature.apply(&queries, batch)?;
        }
        cache.write(batch, &keys, Some(&values))?;
        Ok(queries)
    }

    /// The same in one kernel of a GPU, if there is one for it.
    #[cfg(feature = "cuda")]
    fn rotate_and_store(
        &self,
        [queries, keys, values]: [&Tensor; 3],
        angles: &Angles,
        batch: &Batch,
        cache: &RowCache,
    ) -> Result<Option<Tensor>> {
        let heads = [queries.contiguous()?, keys.contiguous()?, values.contiguous()?];
        self.rotate(crate::cuda::Projected::Separate(heads.each_ref()), angles, batch, cache)
    }

    #[cfg(feature = "cuda")]
    fn rotate(
        &self,
        projected: crate::cuda::Projected<'_>,
        angles: &Angles,
        batch: &Batch,
        cache: &RowCache,
    ) -> Result<Option<Tensor>> {
        let norms = match &self.head_norms {
            None => None,
            Some((Norm::Rms { weight, epsilon }, Norm::Rms { weight: key, epsilon: other }))
                if epsilon == other && !self.rotates_first =>
            {
                Some((weight, key, *epsilon))
            }
            Some(_) => return Ok(None),
        };
        match angles.turns() {
            Some(turns) if self.temperature.is_none() => {
                crate::cuda::rotate_and_store(projected, norms, turns, batch, cache)
            }
            _ => Ok(None),
        }
    }

    /// Joins the projections on a GPU, where one product is faster than three.
    #[cfg(feature = "cuda")]
    pub(crate) fn join(&mut self) -> Result<()> {
        let (Some(query), Some(key), Some(value)) =
            (self.query.plain(), self.key.plain(), self.value.plain())
        else {
            return Ok(());
        };
        let is_half = matches!(query.dtype(), DType::BF16 | DType::F16);
        if !query.device().is_cuda() || !is_half || self.is_gated {
            return Ok(());
        }
        let joined = Tensor::cat(&[query, key, value], 0)?;
        // The parts take no memory of their own.
        let sizes = [query.dim(0)?, key.dim(0)?, value.dim(0)?];
        let part = |first: usize, count: usize| Linear::new(joined.narrow(0, first, count)?, None);
        let [queries, keys, values] = sizes;
        (self.query, self.key) = (part(0, queries)?, part(queries, keys)?);
        self.value = part(queries + keys, values)?;
        self.joined = Some(Linear::new(joined, None)?);
        Ok(())
    }

    /// The same with joined projections; `None` if they are not joined, or something happens to the rows before they are rotated.
    #[cfg(feature = "cuda")]
    fn attend_joined(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Option<Tensor>> {
        let (Some(joined), Some(angles)) = (&self.joined, angles) else { return Ok(None) };
        let is_plain = self.row_norms.is_none() && self.clip.is_none() && self.temperature.is_none();
        let fits = |norm: &Norm| matches!(norm, Norm::Rms { .. }) && norm.dtype() == rows.dtype();
        let norms = self.head_norms.as_ref();
        let are_first = norms.is_none_or(|(query, key)| !self.rotates_first && fits(query) && fits(key));
        if angles.turns().is_none() || !is_plain || !are_first {
            return Ok(None);
        }
        let cache = cache.rows()?;
        let all = joined.forward(rows)?;
        let Some(queries) =
            self.rotate(crate::cuda::Projected::Joined(&all, self.heads), angles, batch, cache)?
        else {
            return Ok(None);
        };
        let made = attend(&queries, &self.options, batch, cache)?;
        Ok(Some(self.output.forward(&made)?))
    }

    /// There is none without a GPU.
    #[cfg(not(feature = "cuda"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "GPUs have a kernel for it")]
    fn rotate_and_store(
        &self,
        _: [&Tensor; 3],
        _: &Angles,
        _: &Batch,
        _: &RowCache,
    ) -> Result<Option<Tensor>> {
        Ok(None)
    }
}
