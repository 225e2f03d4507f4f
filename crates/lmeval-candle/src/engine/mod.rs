//! Scoring and generation: requests in, tokens and log-probabilities out.

#[cfg(test)]
pub(crate) mod fixture;
mod generate;
mod head;
mod sample;
mod score;
mod trie;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Tensor};
use lmeval_core::ModelStats;

use crate::arch::Architecture;
use crate::batch::{Batch, Segment};
use crate::cache::{Cache, LayerShape};
use crate::error::{Error, Result};
use crate::memory;

pub(crate) use generate::GenerationRequest;
pub(crate) use sample::{Rules, Sampling};
pub(crate) use score::{Row, Score, ScoreRequest};

/// Rows per forward pass on the CPU: enough for full speed while activations stay in the caches.
const CPU_ROWS: usize = 1024;
/// Rows per forward pass on GPUs: enough for full speed while activations take little memory beside the weights.
const DEVICE_ROWS: usize = 4096;
/// The lower bound for rows per pass when memory runs out.
const FEWEST_ROWS: usize = 128;
/// Default number of sequences generated at once on the CPU.
const CPU_SEQUENCES: usize = 32;
/// Default number of sequences generated at once on GPUs. Each step reads all weights once, whatever the number of
/// sequences.
const DEVICE_SEQUENCES: usize = 256;
/// States beyond those of a path through the trie: for the branches of one pass.
const BRANCHES: usize = 64;
/// Maximum number of tokens scored per trie: each needs memory until its request is finished.
const SCORED: usize = 1 << 20;

/// The room in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    rows: usize,
    states: usize,
}

impl Room {
    /// Half the room, but not less than `least`.
    fn halved(self, least: Self) -> Self {
        Self { rows: least.rows.max(self.rows / 2), states: least.states.max(self.states / 2) }
    }
}

/// A model with its cache and batch sizes.
#[derive(Debug)]
pub(crate) struct Engine {
    model: Box<dyn Architecture>,
    device: Device,
    dtype: DType,
    cache: Mutex<Option<Cache>>,
    /// Rows per pass. Halved when memory runs out.
    rows: AtomicUsize,
    /// The `batch_size` argument.
    sequences: Option<usize>,
    /// Sequences generated at once. Halved when memory runs out.
    generated: AtomicUsize,
    /// The initial values of `rows` and `generated`.
    full: (usize, usize),
    /// The number of engines sharing the device.
    share: usize,
    /// Maximum number of tokens scored per trie.
    scored: usize,
    /// Whether the last pass padded segments to the same length.
    pads: AtomicBool,
    cancelled: Arc<AtomicBool>,
    pub(crate) stats: ModelStats,
}

impl Engine {
    /// Creates an engine for a model on a device. `sequences` is the batch size, if set.
    pub(crate) fn new(
        model: Box<dyn Architecture>,
        device: &Device,
        dtype: DType,
        sequences: Option<usize>,
    ) -> Self {
        #[cfg(feature = "cuda")]
        crate::cuda::keep_memory(device);
        let (rows, generated) =
            if device.is_cpu() { (CPU_ROWS, CPU_SEQUENCES) } else { (DEVICE_ROWS, DEVICE_SEQUENCES) };
        Self {
            model,
            device: device.clone(),
            dtype,
            cache: Mutex::new(None),
            rows: AtomicUsize::new(rows),
            sequences,
            generated: AtomicUsize::new(sequences.unwrap_or(generated)),
            full: (rows, sequences.unwrap_or(generated)),
            share: 1,
            scored: SCORED,
            pads: AtomicBool::new(!device.is_cpu()),
            cancelled: Arc::default(),
            stats: ModelStats::default(),
        }
    }

    /// Sets the number of engines sharing the device.
    pub(crate) fn shared_by(mut self, engines: usize) -> Self {
        self.share = engines;
        self
    }

    /// Cancels running and future work as soon as possible.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Prepares the device for use on this thread.
    fn enter(&self) -> Result<()> {
        #[cfg(feature = "cuda")]
        crate::cuda::bind(&self.device)?;
        self.check()
    }

    /// Fails if the engine is cancelled.
    fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Runs a forward pass and returns the last hidden rows.
    fn forward(&self, tokens: &[u32], segments: Vec<Segment>, cache: &Cache) -> Result<Tensor> {
        let batch = Batch::new(tokens, segments, &self.device)?.cancelled_by(&self.cancelled);
        let rows = self.model.forward(&batch, cache)?;
        self.pads.store(batch.is_padded(), Ordering::Relaxed);
        self.count(0, tokens.len());
        Ok(rows)
    }

    /// Whether passes pad segments to the same length, as far as is known from the last one.
    fn pads(&self) -> bool {
        self.pads.load(Ordering::Relaxed)
    }

    fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// The number of sequences generated at once.
    fn generated(&self) -> usize {
        self.generated.load(Ordering::Relaxed)
    }

    /// Halves the rows per pass. Returns whether they changed.
    fn shrink_rows(&self) -> bool {
        let rows = self.rows();
        self.rows.store(rows.min(FEWEST_ROWS).max(rows / 2), Ordering::Relaxed);
        self.rows() != rows
    }

    /// Halves the number of sequences generated at once. Returns whether it changed.
    fn shrink_sequences(&self) -> bool {
        let sequences = self.generated();
        self.generated.store((sequences / 2).max(1), Ordering::Relaxed);
        self.generated() != sequences
    }

    /// Restores the initial batch sizes, after the request that ran out of memory has failed.
    fn restore(&self) {
        let (rows, sequences) = self.full;
        self.rows.store(rows, Ordering::Relaxed);
        self.generated.store(sequences, Ordering::Relaxed);
    }

    /// The engine's share of available memory in bytes, if known.
    fn available(&self) -> Option<usize> {
        memory::available(&self.device).map(|bytes| bytes / self.share.max(1))
    }

    /// Bytes per cache row.
    fn row_bytes(&self) -> usize {
        self.model.shape().layers.iter().map(|layer| layer.row_bytes(self.dtype)).sum()
    }

    /// Bytes per state; 0 if the model has none.
    fn state_bytes(&self) -> usize {
        self.model.shape().layers.iter().map(LayerShape::state_bytes).sum()
    }

    /// Whether sequences have states.
    fn has_states(&self) -> bool {
        self.model.shape().layers.iter().any(|layer| !layer.states.is_empty())
    }

    /// Counts requested tokens, and the tokens actually computed for them.
    fn count(&self, requested: usize, computed: usize) {
        self.stats.tokens_asked.fetch_add(requested as u64, Ordering::Relaxed);
        self.stats.tokens_computed.fetch_add(computed as u64, Ordering::Relaxed);
    }

    /// The shortest prefix worth sharing. On the CPU, a token always costs more than an additional segment.
    fn shortest(&self) -> usize {
        if self.device.is_cpu() { 1 } else { 16 }
    }

    /// Locks the cache, reallocated if needed with `wanted` room, or as little as `least` if memory is short.
    fn cache(&self, wanted: Room, least: Room) -> Result<MutexGuard<'_, Option<Cache>>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fit = cache.as_ref().is_some_and(|cache| {
            let is_free = cache.available() == cache.capacity() && cache.available_states() == cache.states();
            is_free && cache.capacity() >= wanted.rows && cache.states() >= wanted.states
        });
        if !is_fit {
            // Free the old one first.
            *cache = None;
            let mut room = wanted;
            *cache = loop {
                // On the CPU, running out of memory would kill the process instead of failing the allocation.
                let is_too_large =
                    self.device.is_cpu() && self.available().is_some_and(|bytes| self.bytes(room) > bytes);
                if is_too_large && room != least {
                    room = room.halved(least);
                    continue;
                }
                if is_too_large {
                    return Err(candle_core::Error::Msg("the CPU is out of memory".into()).into());
                }
                match Cache::new(self.model.shape(), room.rows, room.states, self.dtype, &self.device) {
                    Err(error) if error.is_out_of_memory() && room != least => room = room.halved(least),
                    other => break Some(other?),
                }
            };
        }
        Ok(cache)
    }

    /// The size of a cache.
    fn bytes(&self, room: Room) -> usize {
        let rows = room.rows.saturating_mul(self.row_bytes());
        rows.saturating_add(room.states.saturating_mul(self.state_bytes()))
    }

    /// Groups sequences by length class: sequences of different classes are rotated differently and share nothing.
    fn classes<'a>(&self, lengths: impl Iterator<Item = usize> + 'a) -> Vec<(usize, Vec<usize>)> {
        let boundary = self.model.length_boundary().unwrap_or(usize::MAX);
        let mut classes: Vec<(usize, Vec<usize>)> = Vec::new();
        for (index, length) in lengths.enumerate() {
            let class = if length <= boundary { 0 } else { length };
            match classes.iter_mut().find(|(known, _)| *known == class) {
                Some((_, members)) => members.push(index),
                None => classes.push((class, vec![index])),
            }
        }
        classes
    }
}
