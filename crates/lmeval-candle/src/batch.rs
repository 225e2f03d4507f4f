//! What a forward pass works on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

use crate::error::{Error, Result};
use crate::layers::Padded;

/// Neighbouring rows of the key/value cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first row.
    pub start: usize,
    /// How many rows.
    pub len: usize,
}

impl Span {
    /// The rows.
    pub fn rows(self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }
}

/// Tokens that stand one after the other, and what they see.
///
/// Token `i` of a segment stands at position `offset + i` of its text and sees the keys `0..=offset + i`. The keys are
/// the rows of `spans`, one span after the other, of which the last `len` rows are the segment's own. Segments share
/// spans: that is how a prefix is computed once and read by many.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The first of its rows in the batch.
    pub first: usize,
    /// How many tokens.
    pub len: usize,
    /// How many keys stand before its first token.
    pub offset: usize,
    /// The rows of the cache that hold its `offset + len` keys and values.
    pub spans: Vec<Span>,
    /// The length of the text that it belongs to, as far as it matters: some rotary embeddings depend on it.
    pub length: usize,
}

/// Tokens that go through the model at once: rows of one matrix, without padding.
#[derive(Debug)]
pub struct Batch {
    tokens: Tensor,
    positions: Vec<u32>,
    /// For each row of the batch the row of the cache that takes its key and value.
    destinations: Vec<usize>,
    segments: Vec<Segment>,
    /// Set where the work is to end before it is done.
    ending: Option<Arc<AtomicBool>>,
    padded: OnceLock<Padded>,
    #[cfg(feature = "cuda")]
    ragged: OnceLock<crate::cuda::Ragged>,
}

impl Batch {
    /// A batch of segments, whose tokens stand in `tokens` one segment after the other.
    pub fn new(tokens: &[u32], segments: Vec<Segment>, device: &Device) -> Result<Self> {
        let mut positions = Vec::with_capacity(tokens.len());
        let mut destinations = Vec::with_capacity(tokens.len());
        for segment in &segments {
            positions.extend((segment.offset..segment.offset + segment.len).map(|position| position as u32));
            let own = segment.spans.iter().flat_map(|span| span.rows()).skip(segment.offset);
            destinations.extend(own);
        }
        debug_assert_eq!(tokens.len(), destinations.len());
        let tokens = Tensor::new(tokens, device)?;
        Ok(Self {
            tokens,
            positions,
            destinations,
            segments,
            ending: None,
            padded: OnceLock::new(),
            #[cfg(feature = "cuda")]
            ragged: OnceLock::new(),
        })
    }

    /// The same batch, whose way through the model ends early when the flag is set.
    pub(crate) fn until(mut self, ending: &Arc<AtomicBool>) -> Self {
        self.ending = Some(Arc::clone(ending));
        self
    }

    /// Fails where the work is to end: models ask before each layer.
    pub fn check(&self) -> Result<()> {
        match &self.ending {
            Some(ending) if ending.load(Ordering::Relaxed) => Err(Error::Ended),
            _ => Ok(()),
        }
    }

    /// The tokens: one number per row.
    pub fn tokens(&self) -> &Tensor {
        &self.tokens
    }

    /// The position of each row in its text.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// The rows of the cache that take the batch's keys and values.
    pub fn destinations(&self) -> &[usize] {
        &self.destinations
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.tokens.device()
    }

    /// The segments as the kernel of attention reads them.
    #[cfg(feature = "cuda")]
    pub(crate) fn ragged(&self) -> Result<&crate::cuda::Ragged> {
        if let Some(ragged) = self.ragged.get() {
            return Ok(ragged);
        }
        let ragged = crate::cuda::Ragged::new(self)?;
        Ok(self.ragged.get_or_init(|| ragged))
    }

    /// The segments as rectangles, for devices that want them.
    pub(crate) fn padded(&self) -> Result<&Padded> {
        if let Some(padded) = self.padded.get() {
            return Ok(padded);
        }
        let padded = Padded::new(self)?;
        Ok(self.padded.get_or_init(|| padded))
    }
}
