//! What models store of the tokens they have seen: keys and values, and states.

mod states;

use candle_core::{DType, Device, Tensor};

#[cfg(feature = "cuda")]
pub(crate) use self::states::Numbers;
pub(crate) use self::states::States;
use crate::arch::Shape;
use crate::batch::{Batch, Span};
use crate::error::{Error, Result};

/// Up to this many runs of consecutive rows, each run is copied separately.
const FEW_RUNS: usize = 4;

/// What one layer stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerShape {
    /// Keys and values of each token.
    pub rows: Option<RowShape>,
    /// States of each sequence, for layers that read all earlier tokens through them.
    pub states: Vec<StateShape>,
}

/// The keys and values of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// The number of key/value heads.
    pub heads: usize,
    /// The width of a key, and of a value stored for itself.
    pub width: usize,
    /// The width of values that are the start of their keys; `None` if values are stored for themselves.
    pub values_in_keys: Option<usize>,
}

/// The state of a sequence: float32 numbers in groups that do not depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateShape {
    /// The number of groups.
    pub groups: usize,
    /// The numbers of a group.
    pub size: usize,
}

impl LayerShape {
    /// Keys and values of heads of equal width.
    pub fn heads(heads: usize, width: usize) -> Self {
        Self { rows: Some(RowShape { heads, width, values_in_keys: None }), states: Vec::new() }
    }

    /// States only.
    pub fn states(states: impl Into<Vec<StateShape>>) -> Self {
        Self { rows: None, states: states.into() }
    }

    /// Bytes per token.
    pub(crate) fn row_bytes(&self, dtype: DType) -> usize {
        let copies = |shape: &RowShape| if shape.values_in_keys.is_some() { 1 } else { 2 };
        self.rows
            .as_ref()
            .map_or(0, |shape| copies(shape) * shape.heads * shape.width * dtype.size_in_bytes())
    }

    /// Bytes per state.
    pub(crate) fn state_bytes(&self) -> usize {
        self.states.iter().map(|shape| shape.groups * shape.size * size_of::<f32>()).sum()
    }
}

/// Keys and values of one layer, `[rows, heads, width]` with a row per token.
#[derive(Debug)]
pub struct RowCache {
    keys: Tensor,
    /// `None` if they are the start of the keys.
    values: Option<Tensor>,
    value_width: usize,
}

impl RowCache {
    fn new(shape: &RowShape, capacity: usize, dtype: DType, device: &Device) -> Result<Self> {
        let empty = || Tensor::zeros((capacity, shape.heads, shape.width), dtype, device);
        let values = if shape.values_in_keys.is_some() { None } else { Some(empty()?) };
        Ok(Self { keys: empty()?, values, value_width: shape.values_in_keys.unwrap_or(shape.width) })
    }

    /// Keys and values that no cache has stored, `[rows, heads, width]`.
    pub(crate) fn of(keys: Tensor, values: Tensor) -> Result<Self> {
        let value_width = values.dim(2)?;
        Ok(Self { keys, values: Some(values), value_width })
    }

    /// The keys, used and free rows alike.
    pub fn keys(&self) -> &Tensor {
        &self.keys
    }

    /// The tensor whose rows begin with the values, used and free rows alike.
    pub fn values(&self) -> &Tensor {
        self.values.as_ref().unwrap_or(&self.keys)
    }

    /// The width of values.
    pub fn value_width(&self) -> usize {
        self.value_width
    }

    /// Stores keys and values of a batch, `[rows, heads, width]`, in the batch's destination rows. Values that are the start
    /// of their keys are not given.
    pub fn write(&self, batch: &Batch, keys: &Tensor, values: Option<&Tensor>) -> Result<()> {
        store(&self.keys, batch, keys)?;
        match (&self.values, values) {
            (Some(cache), Some(values)) => store(cache, batch, values),
            _ => Ok(()),
        }
    }
}

/// Stores rows of a batch in its destination rows of a cache.
fn store(cache: &Tensor, batch: &Batch, rows: &Tensor) -> Result<()> {
    let runs = runs(batch.destinations());
    let rows = rows.contiguous()?;
    if runs.len() <= FEW_RUNS || batch.device().is_cpu() {
        for (row, span) in runs {
            cache.slice_set(&rows.narrow(0, row, span.len)?, 0, span.start)?;
        }
        return Ok(());
    }
    #[cfg(feature = "cuda")]
    if crate::cuda::store_rows(cache, &rows, batch.ragged()?)? {
        return Ok(());
    }
    let index = &batch.padded()?.destinations;
    cache.scatter_set(&index.broadcast_as(rows.shape())?.contiguous()?, &rows, 0)?;
    Ok(())
}

/// What one layer has stored.
#[derive(Debug)]
pub struct LayerCache {
    rows: Option<RowCache>,
    states: Vec<States>,
}

impl LayerCache {
    /// The keys and values.
    pub fn rows(&self) -> Result<&RowCache> {
        self.rows.as_ref().ok_or_else(|| Error::unsupported("The layer has no keys and values"))
    }

    /// One of the states.
    pub(crate) fn states(&self, index: usize) -> Result<&States> {
        self.states.get(index).ok_or_else(|| Error::unsupported(format!("The layer has no state {index}")))
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

/// Storage for tokens and sequences: an allocator of a fixed number of rows and of states per layer.
///
/// A row belongs to no particular sequence: every segment with the row in its spans reads it.
#[derive(Debug)]
pub struct Cache {
    layers: Vec<LayerCache>,
    capacity: usize,
    /// Free spans, sorted and never adjacent.
    free: Vec<Span>,
    states: usize,
    free_states: Vec<usize>,
}

impl Cache {
    /// Allocates a cache of `capacity` rows, and of `states` states if the model has any.
    pub fn new(shape: &Shape, capacity: usize, states: usize, dtype: DType, device: &Device) -> Result<Self> {
        let layers = shape.layers.iter().map(|layer| {
            let rows = layer.rows.map(|rows| RowCache::new(&rows, capacity, dtype, device));
            let states = layer.states.iter().map(|shape| States::new(*shape, states, device));
            Ok(LayerCache { rows: rows.transpose()?, states: states.collect::<Result<_>>()? })
        });
        let free = if capacity == 0 { Vec::new() } else { vec![Span { start: 0, len: capacity }] };
        let free_states = (0..states).rev().collect();
        Ok(Self { layers: layers.collect::<Result<_>>()?, capacity, free, states, free_states })
    }

    /// What a layer has stored.
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

    /// The total number of states.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The number of free states.
    pub fn available_states(&self) -> usize {
        self.free_states.len()
    }

    /// Allocates a state; `None` if there is none left.
    pub fn take_state(&mut self) -> Option<usize> {
        self.free_states.pop()
    }

    /// Frees states.
    pub fn give_back_states(&mut self, states: impl IntoIterator<Item = usize>) {
        self.free_states.extend(states);
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
        let layers = vec![LayerShape::heads(1, 2)];
        let shape = Shape { layers, hidden: 2, vocabulary: 3, positions: None };
        Cache::new(&shape, capacity, 0, DType::F32, &Device::Cpu).unwrap()
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
