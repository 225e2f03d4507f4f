//! The key/value cache.

use candle_core::{DType, Device, Tensor};

use crate::arch::Shape;
use crate::batch::{Batch, Span};
use crate::error::{Error, Result};

/// Up to this many runs of consecutive rows, each run is copied separately.
const FEW_RUNS: usize = 4;

/// Keys and values of one layer, `[rows, heads, width]` with a row per token.
#[derive(Debug)]
pub struct LayerCache {
    keys: Tensor,
    values: Tensor,
}

impl LayerCache {
    /// The keys, used and free rows alike.
    pub fn keys(&self) -> &Tensor {
        &self.keys
    }

    /// The values, used and free rows alike.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Stores keys and values of a batch, `[rows, heads, width]`, in the batch's destination rows.
    pub fn write(&self, batch: &Batch, keys: &Tensor, values: &Tensor) -> Result<()> {
        let runs = runs(batch.destinations());
        let (keys, values) = (keys.contiguous()?, values.contiguous()?);
        if runs.len() <= FEW_RUNS || batch.device().is_cpu() {
            for (row, span) in runs {
                self.keys.slice_set(&keys.narrow(0, row, span.len)?, 0, span.start)?;
                self.values.slice_set(&values.narrow(0, row, span.len)?, 0, span.start)?;
            }
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        {
            let ragged = batch.ragged()?;
            if crate::cuda::store_rows(&self.keys, &keys, ragged)?
                && crate::cuda::store_rows(&self.values, &values, ragged)?
            {
                return Ok(());
            }
        }
        let index = &batch.padded()?.destinations;
        self.keys.scatter_set(&index.broadcast_as(keys.shape())?.contiguous()?, &keys, 0)?;
        self.values.scatter_set(&index.broadcast_as(values.shape())?.contiguous()?, &values, 0)?;
        Ok(())
    }
}

/// Groups destinations into runs: the first row in the batch, and the span in the cache.
fn runs(destinations: &[usize]) -> Vec<(usize, Span)> {
    let mut runs: Vec<(usize, Span)> = Vec::new();
    for (row, &destination) in destinations.iter().enumerate() {
        match runs.last_mut() {
            Some((_, span)) if span.start + span.len == destination => span.len += 1,
            _ => runs.push((row, Span { start: destination, len: 1 })),
        }
    }
    runs
}

/// The key/value cache: an allocator of a fixed number of rows per layer.
///
/// A row belongs to no particular sequence: every segment with the row in its spans reads it.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<LayerCache>,
    capacity: usize,
    /// Free spans, sorted and never adjacent.
    free: Vec<Span>,
}

impl Cache {
    /// Allocates a cache of `capacity` rows.
    pub fn new(shape: &Shape, capacity: usize, dtype: DType, device: &Device) -> Result<Self> {
        let size = (capacity, shape.kv_heads, shape.head_width);
        let layers = (0..shape.layers).map(|_| {
            let empty = || Tensor::zeros(size, dtype, device);
            Ok(LayerCache { keys: empty()?, values: empty()? })
        });
        let free = if capacity == 0 { Vec::new() } else { vec![Span { start: 0, len: capacity }] };
        Ok(Self { layers: layers.collect::<Result<_>>()?, capacity, free })
    }

    /// The keys and values of a layer.
    pub fn layer(&self, index: usize) -> Result<&LayerCache> {
        self.layers
            .get(index)
            .ok_or_else(|| Error::unsupported(format!("The key/value cache has no layer {index}")))
    }

    /// The total number of rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of free rows.
    pub fn available(&self) -> usize {
        self.free.iter().map(|span| span.len).sum()
    }

    /// Allocates rows in as few spans as possible; `None` if there are not enough.
    pub fn take(&mut self, rows: usize) -> Option<Vec<Span>> {
        if rows > self.available() {
            return None;
        }
        let mut wanted = rows;
        let mut taken = Vec::new();
        while wanted > 0 {
            // Best fit, or else the largest span.
            let size = |index: &usize| self.free[*index].len;
            let fitting = (0..self.free.len()).filter(|index| size(index) >= wanted).min_by_key(size);
            let index = fitting.or_else(|| (0..self.free.len()).max_by_key(size))?;
            let span = &mut self.free[index];
            let len = wanted.min(span.len);
            taken.push(Span { start: span.start, len });
            span.start += len;
            span.len -= len;
            wanted -= len;
            if span.len == 0 {
                self.free.remove(index);
            }
        }
        Some(taken)
    }

    /// Frees rows.
    pub fn give_back(&mut self, spans: impl IntoIterator<Item = Span>) {
        self.free.extend(spans.into_iter().filter(|span| span.len > 0));
        self.free.sort_unstable_by_key(|span| span.start);
        self.free.dedup_by(|next, span| {
            let touches = span.start + span.len == next.start;
            if touches {
                span.len += next.len;
            }
            touches
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: usize) -> Cache {
        let shape =
            Shape { layers: 1, kv_heads: 1, head_width: 2, hidden: 2, vocabulary: 3, positions: None };
        Cache::new(&shape, capacity, DType::F32, &Device::Cpu).unwrap()
    }

    #[test]
    fn allocates_and_frees_rows() {
        let mut cache = cache(10);
        let [a, b, c] = [4, 3, 3].map(|rows| cache.take(rows).unwrap());
        assert_eq!(a, [Span { start: 0, len: 4 }]);
        assert!(cache.take(1).is_none());
        cache.give_back(a);
        cache.give_back(c);
        assert_eq!(cache.available(), 7);
        // No free span has six rows.
        let split = cache.take(6).unwrap();
        assert_eq!(split, [Span { start: 0, len: 4 }, Span { start: 7, len: 2 }]);
        cache.give_back(split);
        cache.give_back(b);
        assert_eq!(cache.take(10).unwrap(), [Span { start: 0, len: 10 }]);
    }

    #[test]
    fn groups_destinations_into_runs() {
        let span = |start, len| Span { start, len };
        assert_eq!(runs(&[3, 4, 5, 9, 1, 2]), [(0, span(3, 3)), (3, span(9, 1)), (4, span(1, 2))]);
    }
}
