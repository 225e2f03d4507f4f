//! Keys and values of tokens that were computed.

use candle_core::{DType, Device, Tensor};

use crate::arch::Shape;
use crate::batch::{Batch, Span};
use crate::error::{Error, Result};

/// Runs of neighbouring rows up to which each run is copied on its own.
const FEW_RUNS: usize = 4;

/// Keys and values of one layer: matrices with a row per token, `[rows, heads, width]`.
#[derive(Debug)]
pub struct LayerCache {
    keys: Tensor,
    values: Tensor,
}

impl LayerCache {
    /// The keys of all rows.
    pub fn keys(&self) -> &Tensor {
        &self.keys
    }

    /// The values of all rows.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Stores keys and values of a batch, `[rows, heads, width]`, where the batch says.
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

/// Destinations as runs: the first row in the batch, and the rows of the cache.
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

/// The key/value cache: a fixed number of rows per layer, which are given out and taken back.
///
/// A row is of no text: whichever segments name it in their spans read it.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<LayerCache>,
    capacity: usize,
    /// Rows that nobody holds, by their start, never touching each other.
    free: Vec<Span>,
}

impl Cache {
    /// A cache of `capacity` rows.
    pub fn new(shape: &Shape, capacity: usize, dtype: DType, device: &Device) -> Result<Self> {
        let size = (capacity, shape.kv_heads, shape.head_width);
        let layers = (0..shape.layers).map(|_| {
            let empty = || Tensor::zeros(size, dtype, device);
            Ok(LayerCache { keys: empty()?, values: empty()? })
        });
        let free = if capacity == 0 { Vec::new() } else { vec![Span { start: 0, len: capacity }] };
        Ok(Self { layers: layers.collect::<Result<_>>()?, capacity, free })
    }

    /// The part of a layer.
    pub fn layer(&self, index: usize) -> Result<&LayerCache> {
        self.layers.get(index).ok_or_else(|| Error::unsupported(format!("There is no layer {index}")))
    }

    /// The number of rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of rows that nobody holds.
    pub fn available(&self) -> usize {
        self.free.iter().map(|span| span.len).sum()
    }

    /// Takes rows, in as few spans as there are; `None` where there are not enough.
    pub fn take(&mut self, rows: usize) -> Option<Vec<Span>> {
        if rows > self.available() {
            return None;
        }
        let mut wanted = rows;
        let mut taken = Vec::new();
        while wanted > 0 {
            // The smallest span that is large enough, else the largest.
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

    /// Gives rows back.
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
    fn rows_are_given_out_and_taken_back() {
        let mut cache = cache(10);
        let [a, b, c] = [4, 3, 3].map(|rows| cache.take(rows).unwrap());
        assert_eq!(a, [Span { start: 0, len: 4 }]);
        assert!(cache.take(1).is_none());
        cache.give_back(a);
        cache.give_back(c);
        assert_eq!(cache.available(), 7);
        // No span holds six rows, so two are given.
        let split = cache.take(6).unwrap();
        assert_eq!(split, [Span { start: 0, len: 4 }, Span { start: 7, len: 2 }]);
        cache.give_back(split);
        cache.give_back(b);
        assert_eq!(cache.take(10).unwrap(), [Span { start: 0, len: 10 }]);
    }

    #[test]
    fn destinations_are_copied_in_runs() {
        let span = |start, len| Span { start, len };
        assert_eq!(runs(&[3, 4, 5, 9, 1, 2]), [(0, span(3, 3)), (3, span(9, 1)), (4, span(1, 2))]);
    }
}
