//! The input of a forward pass.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

use crate::error::{Error, Result};
use crate::layers::Padded;

/// A range of rows of the key/value cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The index of the first row.
    pub start: usize,
    /// The number of rows.
    pub len: usize,
}

impl Span {
    /// The row indices.
    pub fn rows(self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }
}

/// Consecutive tokens of one sequence, and the keys they attend to.
///
/// Token `i` of a segment is at position `offset + i` of its sequence and attends to the keys `0..=offset + i`. The keys
/// are the rows of `spans`, concatenated; the last `len` of them belong to the segment itself. Segments share spans, so
/// that a common prefix is computed once.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// The index of its first row in the batch.
    pub first: usize,
    /// The number of tokens.
    pub len: usize,
    /// The number of keys before its first token.
    pub offset: usize,
    /// The cache rows of its `offset + len` keys and values.
    pub spans: Vec<Span>,
    /// The length of its sequence if rotary embeddings depend on it, else 0.
    pub length: usize,
    /// The states that layers with states read and write.
    pub state: StateUse,
    /// The number of leading keys that belong to an encoder's input; 0 without an encoder. A segment is either this whole
    /// input or follows it.
    pub source: usize,
}

/// The states of the cache that a segment uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateUse {
    /// The state after the token before the segment; `None` if it is the first one.
    pub before: Option<usize>,
    /// Where to keep the state after its last token, if it is needed. May be the same as `before`.
    pub after: Option<usize>,
}

/// The tokens of one forward pass, as rows of one matrix without padding.
#[derive(Debug)]
pub struct Batch {
    tokens: Tensor,
    positions: Vec<u32>,
    /// For each row of the batch, the cache row for its key and value.
    destinations: Vec<usize>,
    segments: Vec<Segment>,
    cancelled: Option<Arc<AtomicBool>>,
    padded: OnceLock<Padded>,
    #[cfg(feature = "cuda")]
    ragged: OnceLock<crate::cuda::Ragged>,
}

impl Segment {
    /// The number of its keys.
    pub fn keys(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }
}

impl Batch {
    /// Creates a batch from segments and their concatenated tokens.
    pub fn new(tokens: &[u32], segments: Vec<Segment>, device: &Device) -> Result<Self> {
        let batch = Self::of(numbers_on(tokens, device)?, segments);
        debug_assert_eq!(tokens.len(), batch.destinations.len());
        Ok(batch)
    }

    /// Creates a batch from tokens on a device. Segments that only read keys need no rows of their own among them.
    pub(crate) fn of(tokens: Tensor, segments: Vec<Segment>) -> Self {
        let mut positions = Vec::new();
        let mut destinations = Vec::new();
        for segment in &segments {
            positions.extend((segment.offset..segment.offset + segment.len).map(|position| position as u32));
            let mut skipped = segment.offset;
            for span in &segment.spans {
                let before = skipped.min(span.len);
                destinations.extend(span.start + before..span.start + span.len);
                skipped -= before;
            }
        }
        Self {
            tokens,
            positions,
            destinations,
            segments,
            cancelled: None,
            padded: OnceLock::new(),
            #[cfg(feature = "cuda")]
            ragged: OnceLock::new(),
        }
    }

    /// Cancels the forward pass when the flag is set.
    pub(crate) fn cancelled_by(mut self, flag: &Arc<AtomicBool>) -> Self {
        self.cancelled = Some(Arc::clone(flag));
        self
    }

    /// Fails if the pass is cancelled. Models call this before each layer.
    pub fn check(&self) -> Result<()> {
        match &self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    /// The token ids, one per row.
    pub fn tokens(&self) -> &Tensor {
        &self.tokens
    }

    /// The position of each row in its sequence.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// The cache rows for the batch's keys and values.
    pub fn destinations(&self) -> &[usize] {
        &self.destinations
    }

    /// The segments in the order of their rows.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    /// The device of the batch.
    pub fn device(&self) -> &Device {
        self.tokens.device()
    }

    /// The segments in the form of the CUDA attention kernel.
    #[cfg(feature = "cuda")]
    pub(crate) fn ragged(&self) -> Result<&crate::cuda::Ragged> {
        if let Some(ragged) = self.ragged.get() {
            return Ok(ragged);
        }
        let ragged = crate::cuda::Ragged::new(self)?;
        Ok(self.ragged.get_or_init(|| ragged))
    }

    /// Whether a layer has padded the segments.
    pub(crate) fn is_padded(&self) -> bool {
        self.padded.get().is_some()
    }

    /// The segments padded to rectangles, for devices without a ragged attention kernel.
    pub(crate) fn padded(&self) -> Result<&Padded> {
        if let Some(padded) = self.padded.get() {
            return Ok(padded);
        }
        let padded = Padded::new(self)?;
        Ok(self.padded.get_or_init(|| padded))
    }
}

/// A list of numbers as a tensor on a device.
pub(crate) fn numbers_on(numbers: &[u32], device: &Device) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    return Ok(crate::cuda::numbers_on(numbers, device)?);
    #[cfg(not(feature = "cuda"))]
    Ok(Tensor::new(numbers, device)?)
}
