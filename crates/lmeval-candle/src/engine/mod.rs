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
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::memory;

pub(crate) use generate::GenerationRequest;
pub(crate) use sample::{Rules, Sampling};
pub(crate) use score::{Score, ScoreRequest};

/// Rows that go through the model at once on a processor: enough for full speed, and caches stay warm.
const CPU_ROWS: usize = 1024;
/// Rows that go through the model at once on other devices.
const DEVICE_ROWS: usize = 8192;
/// The fewest rows that passes are cut down to where memory is short.
const FEWEST_ROWS: usize = 128;
/// Texts that are generated at once on a processor where nobody says how many.
const CPU_TEXTS: usize = 32;
/// Texts that are generated at once on other devices where nobody says how many: each step reads all weights once,
/// whatever the number of texts.
const DEVICE_TEXTS: usize = 256;
/// Tokens that are scored in one pass over a trie: each takes some memory until its text is done.
const SCORED: usize = 1 << 20;

/// A model with what it needs to work: its cache, and how much it does at once.
#[derive(Debug)]
pub(crate) struct Engine {
    model: Box<dyn Architecture>,
    device: Device,
    dtype: DType,
    cache: Mutex<Option<Cache>>,
    /// Rows of a pass; shrinks where memory is short.
    rows: AtomicUsize,
    /// Texts of a pass, where somebody says how many.
    texts: Option<usize>,
    /// Texts that are generated at once; shrinks where memory is short.
    generated: AtomicUsize,
    /// What both were in the beginning.
    full: (usize, usize),
    /// How many engines share the device.
    share: usize,
    /// Tokens that are scored in one pass over a trie.
    scored: usize,
    /// Whether the work is to end before it is done.
    ending: Arc<AtomicBool>,
    pub(crate) stats: ModelStats,
}

impl Engine {
    /// An engine for a model whose weights are numbers of a type on a device; `texts` go through it at once.
    pub(crate) fn new(
        model: Box<dyn Architecture>,
        device: &Device,
        dtype: DType,
        texts: Option<usize>,
    ) -> Self {
        let (rows, generated) =
            if device.is_cpu() { (CPU_ROWS, CPU_TEXTS) } else { (DEVICE_ROWS, DEVICE_TEXTS) };
        Self {
            model,
            device: device.clone(),
            dtype,
            cache: Mutex::new(None),
            rows: AtomicUsize::new(rows),
            texts,
            generated: AtomicUsize::new(texts.unwrap_or(generated)),
            full: (rows, texts.unwrap_or(generated)),
            share: 1,
            scored: SCORED,
            ending: Arc::default(),
            stats: ModelStats::default(),
        }
    }

    /// The same engine on a device that so many share.
    pub(crate) fn shared_by(mut self, engines: usize) -> Self {
        self.share = engines;
        self
    }

    /// Ends the work that is under way, and all that comes later, as soon as possible.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Makes the device ready for work on this thread.
    fn enter(&self) -> Result<()> {
        #[cfg(feature = "cuda")]
        crate::cuda::bind(&self.device)?;
        self.check()
    }

    /// Fails where the work is to end.
    fn check(&self) -> Result<()> {
        if self.ending.load(Ordering::Relaxed) { Err(Error::Ended) } else { Ok(()) }
    }

    /// The last rows of tokens that go through the model.
    fn forward(&self, tokens: &[u32], segments: Vec<Segment>, cache: &Cache) -> Result<Tensor> {
        let batch = Batch::new(tokens, segments, &self.device)?.until(&self.ending);
        let rows = self.model.forward(&batch, cache)?;
        self.count(0, tokens.len());
        Ok(rows)
    }

    fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// How many texts are generated at once.
    fn generated(&self) -> usize {
        self.generated.load(Ordering::Relaxed)
    }

    /// Halves the rows of passes to come; whether there was something to halve.
    fn shrink_rows(&self) -> bool {
        let rows = self.rows();
        self.rows.store(rows.min(FEWEST_ROWS).max(rows / 2), Ordering::Relaxed);
        self.rows() != rows
    }

    /// Halves how many texts are generated at once; whether there was something to halve.
    fn shrink_texts(&self) -> bool {
        let texts = self.generated();
        self.generated.store((texts / 2).max(1), Ordering::Relaxed);
        self.generated() != texts
    }

    /// Does as much at once as in the beginning: what there was too little memory for is gone.
    fn restore(&self) {
        let (rows, texts) = self.full;
        self.rows.store(rows, Ordering::Relaxed);
        self.generated.store(texts, Ordering::Relaxed);
    }

    /// Bytes that this engine may use of what nobody uses, where it can be told.
    fn free(&self) -> Option<usize> {
        memory::free(&self.device).map(|free| free / self.share.max(1))
    }

    /// Bytes of a row of the cache.
    fn row_bytes(&self) -> usize {
        let shape = self.model.shape();
        shape.layers * shape.kv_heads * shape.head_width * 2 * self.dtype.size_in_bytes()
    }

    /// Counts tokens that were asked for, and those of them that went through the model.
    fn count(&self, asked: usize, computed: usize) {
        self.stats.tokens_asked.fetch_add(asked as u64, Ordering::Relaxed);
        self.stats.tokens_computed.fetch_add(computed as u64, Ordering::Relaxed);
    }

    /// The fewest tokens that are worth being shared. On a processor every token costs more than a segment does.
    fn shortest(&self) -> usize {
        if self.device.is_cpu() { 1 } else { 16 }
    }

    /// The cache, with the wanted rows, or where memory is short with fewer of them, but not with fewer than `least`.
    fn cache(&self, wanted: usize, least: usize) -> Result<MutexGuard<'_, Option<Cache>>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fit = cache
            .as_ref()
            .is_some_and(|cache| cache.capacity() >= wanted && cache.available() == cache.capacity());
        if !is_fit {
            // The old one goes first, so that there is room.
            *cache = None;
            let mut rows = wanted;
            *cache = loop {
                // A processor without memory ends the program rather than the pass.
                let is_too_large = self.device.is_cpu()
                    && self.free().is_some_and(|free| rows.saturating_mul(self.row_bytes()) > free);
                if is_too_large && rows > least {
                    rows = least.max(rows / 2);
                    continue;
                }
                if is_too_large {
                    return Err(candle_core::Error::Msg("the processor is out of memory".into()).into());
                }
                match Cache::new(&self.model.shape(), rows, self.dtype, &self.device) {
                    Err(error) if error.is_out_of_memory() && rows > least => rows = least.max(rows / 2),
                    other => break Some(other?),
                }
            };
        }
        Ok(cache)
    }

    /// Texts by their lengths as far as they matter: those of different classes share nothing.
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
