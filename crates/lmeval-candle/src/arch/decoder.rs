//! The decoder that all architectures configure: embedding, blocks of attention and feed-forward layers, norm and head.

use std::fmt::Debug;

use candle_core::{DType, Tensor};

use super::{Architecture, Shape, logits};
use crate::batch::Batch;
use crate::cache::{Cache, LayerCache, LayerShape};
use crate::error::Result;
use crate::layers::{Angles, Experts, Linear, Mlp, Norm, Rotary, SelfAttention};
use crate::matrix::Matrix;

/// A decoder-only transformer.
#[derive(Debug)]
pub(super) struct Decoder<M = SelfAttention> {
    pub(super) shape: Shape,
    pub(super) input: Input,
    pub(super) blocks: Vec<Block<M>>,
    pub(super) output: Output,
    /// Rotary embeddings: one for all blocks, or one per kind of block.
    pub(super) rotaries: Vec<Rotary>,
}

/// Embeds tokens as rows.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) embedding: Matrix,
    /// Scales the embeddings.
    pub(super) scale: Option<f64>,
    /// Normalises the embeddings.
    pub(super) norm: Option<Norm>,
    /// Projects embeddings to the width of rows.
    pub(super) projection: Option<Linear>,
    /// A learned position embedding, and the index of its row for the first position.
    pub(super) positions: Option<(Matrix, u32)>,
}

/// Computes logits from rows.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) norm: Option<Norm>,
    /// Projects rows to the width of the head.
    pub(super) projection: Option<Linear>,
    pub(super) head: Linear,
    /// Scales the logits.
    pub(super) scale: Option<f64>,
    /// Logits `x` become `cap · tanh(x / cap)`.
    pub(super) cap: Option<f64>,
}

/// A transformer block.
#[derive(Debug)]
pub(super) struct Block<M = SelfAttention> {
    pub(super) flow: Flow,
    pub(super) attention: M,
    pub(super) feed_forward: FeedForward,
    /// The index of the block's rotary embedding; `None` without rotation.
    pub(super) rotary: Option<usize>,
}

/// A layer that reads earlier tokens: attention, or something in its place.
pub(super) trait Mixer: Debug + Send + Sync {
    /// What it stores.
    fn stores(&self) -> LayerShape;

    /// Computes the output for rows `[rows, hidden]`, with rotary angles if the block rotates.
    fn forward(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor>;
}

impl Mixer for SelfAttention {
    fn stores(&self) -> LayerShape {
        LayerShape::heads(self.kv_heads, self.head_width)
    }

    fn forward(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        self.attend(rows, angles, batch, cache)
    }
}

impl Mixer for Box<dyn Mixer> {
    fn stores(&self) -> LayerShape {
        self.as_ref().stores()
    }

    fn forward(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        self.as_ref().forward(rows, angles, batch, cache)
    }
}

/// How attention and feed-forward layer of a block are connected.
#[derive(Debug)]
pub(super) enum Flow {
    /// One after the other, with norms before and after each.
    Sequential { attention: Norms, feed_forward: Norms },
    /// Both read the same rows. Without its own norm, the feed-forward layer reads the input of attention.
    Parallel { attention: Norm, feed_forward: Option<Norm> },
    /// Like sequential, with a norm after each residual sum.
    NormedSum { attention: Norm, feed_forward: Norm },
    /// The mixer alone, without a feed-forward layer. The residual sum may be in float32 whatever the model computes in.
    Alone { norm: Norm, is_wide: bool },
}

/// The norms around a layer.
#[derive(Debug, Default)]
pub(super) struct Norms {
    pub(super) before: Option<Norm>,
    pub(super) behind: Option<Norm>,
    /// Scales the output of the layer.
    pub(super) scale: Option<f64>,
}

impl Norms {
    /// A norm before the layer.
    pub(super) fn before(norm: Norm) -> Self {
        Self { before: Some(norm), ..Self::default() }
    }

    /// A norm after the layer.
    pub(super) fn behind(norm: Norm) -> Self {
        Self { behind: Some(norm), ..Self::default() }
    }
}

/// A dense feed-forward layer, or a mixture of experts.
#[derive(Debug)]
pub(super) enum FeedForward {
    Dense(Mlp),
    Experts(Box<Experts>),
    /// For blocks of a mixer alone.
    None,
}

impl FeedForward {
    /// Computes the outputs of rows.
    pub(super) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(mlp) => mlp.forward(rows),
            Self::Experts(experts) => experts.forward(rows),
            Self::None => Ok(rows.zeros_like()?),
        }
    }
}

impl Input {
    /// Token embeddings only.
    #[expect(clippy::unnecessary_wraps, reason = "callers use it like the other constructors")]
    pub(super) fn new(embedding: impl Into<Matrix>) -> Result<Self> {
        let embedding = embedding.into();
        Ok(Self { embedding, scale: None, norm: None, projection: None, positions: None })
    }

    /// Adds a position embedding whose row for the first position is `first`.
    #[expect(clippy::unnecessary_wraps, reason = "callers use it like the other constructors")]
    pub(super) fn with_positions(mut self, table: impl Into<Matrix>, first: u32) -> Result<Self> {
        self.positions = Some((table.into(), first));
        Ok(self)
    }

    fn forward(&self, batch: &Batch) -> Result<Tensor> {
        let mut rows = self.embedding.gather(batch.tokens())?;
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
            let indices: Vec<u32> = batch.positions().iter().map(|position| position + first).collect();
            let indices = Tensor::new(indices, batch.device())?;
            rows = (rows + table.gather(&indices)?)?;
        }
        Ok(rows)
    }
}

impl Output {
    /// A final norm and a head.
    pub(super) fn new(norm: Norm, head: Linear) -> Self {
        Self { norm: Some(norm), projection: None, head, scale: None, cap: None }
    }
}

/// The rows between layers. What the last layer added is summed together with the next norm, which saves GPUs a pass.
struct Residual {
    rows: Tensor,
    added: Option<Tensor>,
}

impl Residual {
    fn new(rows: Tensor) -> Self {
        Self { rows, added: None }
    }

    /// The sum.
    fn rows(&mut self) -> Result<&Tensor> {
        if let Some(added) = self.added.take() {
            self.rows = (&self.rows + added)?;
        }
        Ok(&self.rows)
    }

    /// The norm of the sum.
    fn normed(&mut self, norm: &Norm) -> Result<Tensor> {
        let (rows, made) = norm.forward_sum(&self.rows, self.added.take().as_ref())?;
        self.rows = rows;
        Ok(made)
    }
}

impl<M: Mixer> Block<M> {
    fn forward(
        &self,
        residual: &mut Residual,
        angles: &[Angles],
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<()> {
        let angles = self.rotary.and_then(|index| angles.get(index));
        let attend = |rows: &Tensor| self.attention.forward(rows, angles, batch, cache);
        if let Flow::Sequential { attention, feed_forward } = &self.flow {
            attention.around(residual, attend)?;
            return feed_forward.around(residual, |rows| self.feed_forward.forward(rows));
        }
        let rows = residual.rows()?;
        residual.rows = match &self.flow {
            Flow::Sequential { .. } => return Ok(()),
            Flow::Parallel { attention, feed_forward } => {
                let read = attention.forward(rows)?;
                let attended = attend(&read)?;
                let fed = match feed_forward {
                    Some(norm) => self.feed_forward.forward(&norm.forward(rows)?)?,
                    None => self.feed_forward.forward(&read)?,
                };
                ((attended + fed)? + rows)?
            }
            Flow::NormedSum { attention, feed_forward } => {
                let rows = attention.forward(&(rows + attend(rows)?)?)?;
                feed_forward.forward(&(&rows + self.feed_forward.forward(&rows)?)?)?
            }
            Flow::Alone { norm, is_wide } => {
                let made = attend(&norm.forward(&rows.to_dtype(norm.dtype())?)?)?;
                let dtype = if *is_wide { DType::F32 } else { rows.dtype() };
                (rows.to_dtype(dtype)? + made.to_dtype(dtype)?)?
            }
        };
        Ok(())
    }
}

impl Norms {
    fn around(&self, residual: &mut Residual, part: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        let made = match &self.before {
            Some(norm) => part(&residual.normed(norm)?)?,
            None => part(residual.rows()?)?,
        };
        let made = match &self.behind {
            Some(norm) => norm.forward(&made)?,
            None => made,
        };
        residual.added = Some(match self.scale {
            Some(scale) => (made * scale)?,
            None => made,
        });
        Ok(())
    }
}

impl<M: Mixer> Architecture for Decoder<M> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn forward(&self, batch: &Batch, cache: &Cache) -> Result<Tensor> {
        let rows = self.input.forward(batch)?;
        let dtype = rows.dtype();
        let angles = self.rotaries.iter().map(|rotary| rotary.at(batch, dtype));
        let angles: Vec<Angles> = angles.collect::<Result<_>>()?;
        let mut residual = Residual::new(rows);
        for (index, block) in self.blocks.iter().enumerate() {
            batch.check()?;
            block.forward(&mut residual, &angles, batch, cache.layer(index)?)?;
        }
        match &self.output.norm {
            Some(norm) if residual.rows.dtype() == dtype => residual.normed(norm),
            Some(norm) => Ok(norm.forward(&residual.rows()?.to_dtype(dtype)?)?),
            None => Ok(residual.rows()?.to_dtype(dtype)?),
        }
    }

    fn head(&self, rows: &Tensor) -> Result<Tensor> {
        let Output { projection, head, scale, cap, .. } = &self.output;
        let projected = projection.as_ref().map(|projection| projection.forward(rows)).transpose()?;
        let rows = projected.as_ref().unwrap_or(rows);
        if scale.is_none() && cap.is_none() && rows.device().is_cuda() {
            return Ok(head.forward(rows)?);
        }
        let mut made = logits(head, rows)?;
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
