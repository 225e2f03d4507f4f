//! The frame that architectures fill: an embedding, blocks of attention and feed-forward layers, a norm and a head.

use candle_core::Tensor;
use candle_nn::{Embedding, Module};

use super::{Architecture, Shape, logits};
use crate::batch::Batch;
use crate::cache::{Cache, LayerCache};
use crate::error::Result;
use crate::layers::{Angles, Experts, Linear, Mlp, Norm, Rotary, SelfAttention};

/// A model of blocks that all have attention and a feed-forward layer.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) shape: Shape,
    pub(super) input: Input,
    pub(super) blocks: Vec<Block>,
    pub(super) output: Output,
    /// Rotations of queries and keys: one for all blocks, or one for each kind of block.
    pub(super) rotaries: Vec<Rotary>,
}

/// From tokens to rows.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) embedding: Embedding,
    /// What embeddings are multiplied with.
    pub(super) scale: Option<f64>,
    /// A norm of the embeddings.
    pub(super) norm: Option<Norm>,
    /// A matrix from the embeddings' width to that of the rows.
    pub(super) projection: Option<Linear>,
    /// A table of positions that is added, and how many of its rows stand before the first position.
    pub(super) positions: Option<(Embedding, u32)>,
}

/// From rows to logits.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) norm: Option<Norm>,
    /// A matrix from the rows' width to that of the head.
    pub(super) projection: Option<Linear>,
    pub(super) head: Linear,
    /// What logits are multiplied with.
    pub(super) scale: Option<f64>,
    /// Logits `x` become `cap · tanh(x / cap)`.
    pub(super) cap: Option<f64>,
}

/// Attention and a feed-forward layer.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) flow: Flow,
    pub(super) attention: SelfAttention,
    pub(super) feed_forward: FeedForward,
    /// Which of the model's rotations counts; none where positions are not rotated.
    pub(super) rotary: Option<usize>,
}

/// How the parts of a block are connected.
#[derive(Debug)]
pub(super) enum Flow {
    /// Both parts add to the rows, one after the other, with norms before and behind each.
    Sequential { attention: Norms, feed_forward: Norms },
    /// Both parts read the same rows and add to them. Without an own norm the feed-forward layer reads what attention
    /// reads.
    Parallel { attention: Norm, feed_forward: Option<Norm> },
    /// As sequential, but with a norm of the sum behind each part.
    NormedSum { attention: Norm, feed_forward: Norm },
}

/// The norms around a part of a block.
#[derive(Debug, Default)]
pub(super) struct Norms {
    pub(super) before: Option<Norm>,
    pub(super) behind: Option<Norm>,
    /// What is multiplied with what the part makes.
    pub(super) scale: Option<f64>,
}

impl Norms {
    /// A norm before the part.
    pub(super) fn before(norm: Norm) -> Self {
        Self { before: Some(norm), ..Self::default() }
    }

    /// A norm behind the part.
    pub(super) fn behind(norm: Norm) -> Self {
        Self { behind: Some(norm), ..Self::default() }
    }
}

/// A feed-forward layer.
#[derive(Debug)]
pub(super) enum FeedForward {
    Dense(Mlp),
    Experts(Experts),
}

impl FeedForward {
    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(mlp) => mlp.forward(rows),
            Self::Experts(experts) => experts.forward(rows),
        }
    }
}

impl Input {
    /// Embeddings of tokens and nothing else.
    pub(super) fn new(embedding: &Tensor) -> Result<Self> {
        let width = embedding.dim(1)?;
        Ok(Self {
            embedding: Embedding::new(embedding.clone(), width),
            scale: None,
            norm: None,
            projection: None,
            positions: None,
        })
    }

    /// Adds a table of positions, of whose rows `first` stand before the first position.
    pub(super) fn with_positions(mut self, table: Tensor, first: u32) -> Result<Self> {
        let width = table.dim(1)?;
        self.positions = Some((Embedding::new(table, width), first));
        Ok(self)
    }

    fn forward(&self, batch: &Batch) -> Result<Tensor> {
        let mut rows = self.embedding.forward(batch.tokens())?;
        if let Some(scale) = self.scale {
            rows = (rows * scale)?;
        }
        if let Some(norm) = &self.norm {
            rows = norm.forward(&rows)?;
        }
        if let Some(projection) = &self.projection {
            rows = projection.forward(&rows)?;
        }
        if let Some((table, first)) = &self.positions {
            let places: Vec<u32> = batch.positions().iter().map(|position| position + first).collect();
            let places = Tensor::new(places, batch.device())?;
            rows = (rows + table.forward(&places)?)?;
        }
        Ok(rows)
    }
}

impl Output {
    /// A norm and a head.
    pub(super) fn new(norm: Norm, head: Linear) -> Self {
        Self { norm: Some(norm), projection: None, head, scale: None, cap: None }
    }
}

impl Block {
    fn forward(&self, rows: Tensor, angles: &[Angles], batch: &Batch, cache: &LayerCache) -> Result<Tensor> {
        let angles = self.rotary.and_then(|index| angles.get(index));
        let attend = |rows: &Tensor| self.attention.forward(rows, angles, batch, cache);
        match &self.flow {
            Flow::Sequential { attention, feed_forward } => {
                let rows = (&rows + attention.around(&rows, attend)?)?;
                Ok((&rows + feed_forward.around(&rows, |rows| self.feed_forward.forward(rows))?)?)
            }
            Flow::Parallel { attention, feed_forward } => {
                let read = attention.forward(&rows)?;
                let attended = attend(&read)?;
                let fed = match feed_forward {
                    Some(norm) => self.feed_forward.forward(&norm.forward(&rows)?)?,
                    None => self.feed_forward.forward(&read)?,
                };
                Ok(((attended + fed)? + rows)?)
            }
            Flow::NormedSum { attention, feed_forward } => {
                let rows = attention.forward(&(&rows + attend(&rows)?)?)?;
                Ok(feed_forward.forward(&(&rows + self.feed_forward.forward(&rows)?)?)?)
            }
        }
    }
}

impl Norms {
    fn around(&self, rows: &Tensor, part: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let made = match &self.before {
            Some(norm) => part(&norm.forward(rows)?)?,
            None => part(rows)?,
        };
        let made = match &self.behind {
            Some(norm) => norm.forward(&made)?,
            None => made,
        };
        match self.scale {
            Some(scale) => Ok((made * scale)?),
            None => Ok(made),
        }
    }
}

impl Architecture for Decoder {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        let mut rows = self.input.forward(batch)?;
        let angles = self.rotaries.iter().map(|rotary| rotary.at(batch, rows.dtype()));
        let angles: Vec<Angles> = angles.collect::<Result<_>>()?;
        for (index, block) in self.blocks.iter().enumerate() {
            batch.check()?;
            rows = block.forward(rows, &angles, batch, cache.layer(index)?)?;
        }
        match &self.output.norm {
            Some(norm) => Ok(norm.forward(&rows)?),
            None => Ok(rows),
        }
    }

    fn head(&self, rows: &Tensor) -> Result<Tensor> {
        let Output { projection, head, scale, cap, .. } = &self.output;
        let mut made = match projection {
            Some(projection) => logits(head, &projection.forward(rows)?)?,
            None => logits(head, rows)?,
        };
        if let Some(scale) = scale {
            made = (made * *scale)?;
        }
        match cap {
            Some(cap) => Ok(((made / *cap)?.tanh()? * *cap)?),
            None => Ok(made),
        }
    }

    fn length_boundary(&self) -> Option<usize> {
        self.rotaries.iter().filter_map(Rotary::boundary).min()
    }

    fn length_crossing(&self) -> Option<usize> {
        self.rotaries.iter().filter_map(Rotary::crossing).min()
    }
}
