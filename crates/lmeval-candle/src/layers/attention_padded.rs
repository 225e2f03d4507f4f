//! Attention on devices without a ragged kernel: segments padded to rectangles, so that it takes few large matrix products.

use std::sync::{Mutex, PoisonError};

use candle_core::{D, DType, Device, Tensor};

use super::attention::AttentionOptions;
use crate::batch::{Batch, Segment, Span};
use crate::cache::RowCache;
use crate::error::Result;

/// The segments of a batch padded to the size of the longest one.
///
/// The prefix shared by all segments is one matrix for all queries: it costs one large product instead of many small ones,
/// and its keys are read once.
#[derive(Debug)]
pub(crate) struct Padded {
    /// The cache rows for the batch's keys and values, `[rows, 1, 1]`.
    pub(crate) destinations: Tensor,
    /// The spans shared by all segments.
    shared: Vec<Span>,
    /// The number of segments.
    segments: usize,
    /// Queries and keys per rectangle, without shared keys.
    queries: usize,
    keys: usize,
    /// The batch row of each query; `None` if queries and rows are in the same order.
    query_rows: Option<Tensor>,
    /// The query index of each row.
    row_queries: Option<Tensor>,
    /// The cache row of each key.
    key_rows: Tensor,
    /// The position of each query, and the number of keys of its segment.
    positions: Vec<(usize, usize)>,
    /// Masks, reused by layers.
    masks: Mutex<Vec<(MaskKey, Tensor)>>,
}

/// Window, chunk, whether all keys are seen, and the number of heads sharing keys.
type MaskKey = (Option<usize>, Option<usize>, bool, usize);

impl Padded {
    pub(crate) fn new(batch: &Batch) -> Result<Self> {
        let device = batch.device();
        let segments = batch.segments();
        let shared = shared(segments);
        let prefix: usize = shared.iter().map(|span| span.len).sum();
        let queries = segments.iter().map(|segment| segment.len).max().unwrap_or(0);
        let keys = segments.iter().map(|segment| segment.keys() - prefix).max().unwrap_or(0);
        let is_even = segments.iter().all(|segment| segment.len == queries);
        let mut query_rows = Vec::new();
        let mut row_queries = Vec::new();
        let mut key_rows = Vec::new();
        let mut positions = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let last = segment.len.saturating_sub(1);
            query_rows.extend((0..queries).map(|query| (segment.first + query.min(last)) as u32));
            row_queries.extend((0..segment.len).map(|query| (index * queries + query) as u32));
            let rows = segment.spans.iter().flat_map(|span| span.rows()).skip(prefix);
            let own: Vec<u32> = rows.map(|row| row as u32).collect();
            let filler = own.first().copied().unwrap_or(0);
            let missing = keys - own.len();
            key_rows.extend(own.into_iter().chain(std::iter::repeat_n(filler, missing)));
            let all = segment.keys();
            positions.extend((0..queries).map(|query| (segment.offset + query.min(last), all)));
        }
        let tensor = |numbers: Vec<u32>| Tensor::new(numbers, device);
        let destinations: Vec<u32> = batch.destinations().iter().map(|row| *row as u32).collect();
        let count = destinations.len();
        Ok(Self {
            destinations: tensor(destinations)?.reshape((count, 1, 1))?,
            shared,
            segments: segments.len(),
            queries,
            keys,
            query_rows: if is_even { None } else { Some(tensor(query_rows)?) },
            row_queries: if is_even { None } else { Some(tensor(row_queries)?) },
            key_rows: tensor(key_rows)?,
            positions,
            masks: Mutex::default(),
        })
    }

    /// Computes attention of `[rows, heads, width]` as `[rows, heads · value width]`.
    pub(crate) fn attend(
        &self,
        queries: &Tensor,
        options: &AttentionOptions,
        cache: &RowCache,
    ) -> Result<Tensor> {
        let device = queries.device().clone();
        let device = &device;
        let (_, heads, width) = queries.dims3()?;
        let (_, kv_heads, _) = cache.keys().dims3()?;
        let group = heads / kv_heads;
        let value_width = cache.value_width();
        let Self { segments, queries: length, keys, .. } = *self;
        let dtype = queries.dtype();
        let queries = match &self.query_rows {
            Some(rows) => queries.index_select(rows, 0)?,
            None => queries.clone(),
        };
        // [kv heads, segments, queries · group, width]
        let queries = (queries * f64::from(options.scale))?
            .reshape((segments, length, kv_heads, group, width))?
            .permute((2, 0, 1, 3, 4))?
            .contiguous()?
            .reshape((kv_heads, segments, length * group, width))?;
        let gather = |stored: &Tensor, width: usize| {
            stored
                .index_select(&self.key_rows, 0)?
                .narrow(D::Minus1, 0, width)?
                .reshape((segments, keys, kv_heads, width))?
                .permute((2, 0, 1, 3))?
                .contiguous()
        };
        let own_keys = gather(cache.keys(), width)?;
        let own_values = gather(cache.values(), value_width)?;
        let mut scores = queries.matmul(&own_keys.transpose(2, 3)?)?;
        let shared = self.shared_rows(cache)?;
        let all_queries = (kv_heads, segments * length * group, width);
        let prefix: usize = self.shared.iter().map(|span| span.len).sum();
        if let Some((keys, _)) = &shared {
            let first = queries.reshape(all_queries)?.matmul(&keys.transpose(1, 2)?)?;
            scores =
                Tensor::cat(&[&first.reshape((kv_heads, segments, length * group, prefix))?, &scores], 3)?;
        }
        let mut scores = scores.to_dtype(DType::F32)?;
        if let Some(cap) = options.softcap {
            scores = ((scores / f64::from(cap))?.tanh()? * f64::from(cap))?;
        }
        if options.has_biases() {
            scores = scores.broadcast_add(&self.biases(options, kv_heads, group, prefix, device)?)?;
        }
        let scores = scores.broadcast_add(&self.mask(options, group, prefix, device)?)?;
        let weights = match &options.sinks {
            None => candle_nn::ops::softmax_last_dim(&scores)?,
            Some(sinks) => {
                // A last column that is dropped after the softmax.
                let sinks = Tensor::new(sinks.as_slice(), device)?.reshape((kv_heads, 1, 1, group))?;
                let sinks = sinks.broadcast_as((kv_heads, segments, length, group))?.contiguous()?;
                let sinks = sinks.reshape((kv_heads, segments, length * group, 1))?;
                let all = candle_nn::ops::softmax_last_dim(&Tensor::cat(&[&scores, &sinks], 3)?)?;
                all.narrow(D::Minus1, 0, prefix + keys)?
            }
        };
        let weights = weights.to_dtype(dtype)?;
        let mut made = weights.narrow(D::Minus1, prefix, keys)?.contiguous()?.matmul(&own_values)?;
        if let Some((_, values)) = &shared {
            let first = weights.narrow(D::Minus1, 0, prefix)?.contiguous()?;
            let first = first.reshape((kv_heads, segments * length * group, prefix))?.matmul(values)?;
            made = (made + first.reshape((kv_heads, segments, length * group, value_width))?)?;
        }
        let made = made
            .reshape((kv_heads, segments, length, group, value_width))?
            .permute((1, 2, 0, 3, 4))?
            .contiguous()?
            .reshape((segments * length, heads * value_width))?;
        match &self.row_queries {
            Some(rows) => Ok(made.index_select(rows, 0)?),
            None => Ok(made),
        }
    }

    /// Keys and values of the shared prefix, `[kv heads, rows, width]`.
    fn shared_rows(&self, cache: &RowCache) -> Result<Option<(Tensor, Tensor)>> {
        if self.shared.is_empty() {
            return Ok(None);
        }
        let rows = |stored: &Tensor| -> Result<Tensor> {
            let spans: Vec<Tensor> = self
                .shared
                .iter()
                .map(|span| stored.narrow(0, span.start, span.len))
                .collect::<candle_core::Result<_>>()?;
            Ok(Tensor::cat(&spans, 0)?.transpose(0, 1)?.contiguous()?)
        };
        let values = cache.values().narrow(D::Minus1, 0, cache.value_width())?;
        Ok(Some((rows(cache.keys())?, rows(&values)?)))
    }

    /// The mask added to scores `[.., segments, queries · group, shared + keys]`: minus infinity for masked keys.
    fn mask(
        &self,
        options: &AttentionOptions,
        group: usize,
        prefix: usize,
        device: &Device,
    ) -> Result<Tensor> {
        let wanted = (options.window, options.chunk, options.sees_all, group);
        let mut masks = self.masks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, mask)) = masks.iter().find(|(key, _)| *key == wanted) {
            return Ok(mask.clone());
        }
        let width = prefix + self.keys;
        let mut mask = vec![f32::NEG_INFINITY; self.segments * self.queries * group * width];
        let rows = self.positions.iter().flat_map(|position| std::iter::repeat_n(*position, group));
        for ((position, all), row) in rows.zip(mask.chunks_exact_mut(width.max(1))) {
            row[options.keys_of(position, all)].fill(0.0);
        }
        let mask = Tensor::from_vec(mask, (1, self.segments, self.queries * group, width), device)?;
        masks.push((wanted, mask.clone()));
        Ok(mask)
    }

    /// The position bias, `[kv heads, segments or 1, queries · group, shared + keys]`.
    fn biases(
        &self,
        options: &AttentionOptions,
        kv_heads: usize,
        group: usize,
        prefix: usize,
        device: &Device,
    ) -> Result<Tensor> {
        let width = prefix + self.keys;
        // Without distances, the bias depends on the key alone.
        let by_query = options.distances.is_some();
        let segments = if by_query { self.segments } else { 1 };
        let mut made = Vec::with_capacity(kv_heads * segments * group * self.queries * width);
        for kv_head in 0..kv_heads {
            for row in 0..segments * self.queries * group {
                let head = kv_head * group + row % group;
                let query = if by_query { self.positions[row / group].0 } else { 0 };
                made.extend((0..width).map(|position| options.bias(head, query, position)));
            }
        }
        Ok(Tensor::from_vec(made, (kv_heads, segments, self.queries * group, width), device)?)
    }
}

/// The spans that all segments begin with, except those with their own rows.
fn shared(segments: &[Segment]) -> Vec<Span> {
    let [first, others @ ..] = segments else { return Vec::new() };
    let mut shared = Vec::new();
    let mut length = 0;
    for (index, span) in first.spans.iter().enumerate() {
        length += span.len;
        let is_shared = !others.is_empty()
            && length <= first.offset
            && others.iter().all(|other| other.spans.get(index) == Some(span) && length <= other.offset);
        if !is_shared {
            break;
        }
        shared.push(*span);
    }
    shared
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::super::attention::{Distances, attend};
    use super::*;
    use crate::arch::Shape;
    use crate::cache::{Cache, LayerShape};

    /// Ragged and padded attention agree on segments of several lengths that depend on each other, with all score options.
    #[test]
    fn rectangles_as_ragged() {
        let (heads, kv_heads, width) = (6, 2, 40);
        let layers = vec![LayerShape::heads(kv_heads, width)];
        let shape = Shape { layers, hidden: 1, vocabulary: 1, positions: None };
        let device = Device::Cpu;
        let random =
            |rows: usize, heads: usize| Tensor::randn(0_f32, 1.0, (rows, heads, width), &device).unwrap();
        let mut cache = Cache::new(&shape, 200, 0, DType::F32, &device).unwrap();
        let span = |start, len| Span { start, len };
        let prefix = cache.take(90).unwrap();
        let first = Segment { first: 0, len: 90, offset: 0, spans: prefix, length: 90, ..Segment::default() };
        let plain = AttentionOptions::new(width);
        let slopes: Option<Vec<f32>> = Some((0..heads).map(|head| 0.1 * head as f32).collect());
        let buckets: Vec<Vec<f32>> =
            (0..heads).map(|head| (0..8).map(|bucket| (head * bucket) as f32 * 0.1).collect()).collect();
        for options in [
            plain.clone(),
            AttentionOptions { window: Some(7), ..plain.clone() },
            AttentionOptions { window: Some(60), softcap: Some(2.0), ..plain.clone() },
            AttentionOptions { slopes: slopes.clone(), ..plain.clone() },
            AttentionOptions { coarse_slopes: slopes, ..plain.clone() },
            AttentionOptions { chunk: Some(32), ..plain.clone() },
            AttentionOptions { sinks: Some(vec![0.3, -1.0, 2.0, 0.0, 5.0, 1.0]), ..plain.clone() },
            AttentionOptions { distances: Some(Distances::new(&buckets, 20, false)), ..plain.clone() },
            AttentionOptions { distances: Some(Distances::new(&buckets, 20, true)), sees_all: true, ..plain },
        ] {
            let tokens = vec![0; 90];
            let batch = Batch::new(&tokens, vec![first.clone()], &device).unwrap();
            let layer = cache.layer(0).unwrap().rows().unwrap();
            let (queries, keys, values) = (random(90, heads), random(90, kv_heads), random(90, kv_heads));
            check(
                &stored(&queries, &keys, &values, &options, &batch, layer).unwrap(),
                &queries,
                &options,
                &batch,
                layer,
            );
            let segments = vec![
                Segment {
                    first: 0,
                    len: 5,
                    offset: 90,
                    spans: vec![span(0, 90), span(90, 5)],
                    length: 0,
                    ..Segment::default()
                },
                Segment {
                    first: 5,
                    len: 70,
                    offset: 90,
                    spans: vec![span(0, 90), span(95, 70)],
                    length: 0,
                    ..Segment::default()
                },
                Segment {
                    first: 75,
                    len: 1,
                    offset: 95,
                    spans: vec![span(0, 90), span(90, 5), span(170, 1)],
                    ..Segment::default()
                },
                Segment {
                    first: 76,
                    len: 3,
                    offset: 95,
                    spans: vec![span(0, 90), span(90, 5), span(172, 3)],
                    ..Segment::default()
                },
            ];
            let batch = Batch::new(&vec![0; 79], segments, &device).unwrap();
            let (queries, keys, values) = (random(79, heads), random(79, kv_heads), random(79, kv_heads));
            check(
                &stored(&queries, &keys, &values, &options, &batch, layer).unwrap(),
                &queries,
                &options,
                &batch,
                layer,
            );
        }
    }

    fn stored(
        queries: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        options: &AttentionOptions,
        batch: &Batch,
        layer: &RowCache,
    ) -> Result<Tensor> {
        layer.write(batch, keys, Some(values))?;
        attend(queries, options, batch, layer)
    }

    fn check(ragged: &Tensor, queries: &Tensor, options: &AttentionOptions, batch: &Batch, layer: &RowCache) {
        let padded = batch.padded().unwrap().attend(queries, options, layer).unwrap();
        let difference =
            (ragged - padded).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        assert!(difference < 2e-5, "{difference} with {options:?}");
    }
}
