//! Attention whose keys and values are projected from one latent row per token.

use candle_core::{D, Tensor};

use super::attention::{AttentionOptions, attend};
use super::linear::Linear;
use super::norm::Norm;
use super::per_head::PerHead;
use super::rotary::Angles;
use crate::batch::Batch;
use crate::cache::{LayerCache, LayerShape, RowShape};
use crate::error::Result;

/// Multi-head latent attention.
///
/// The cache holds latent rows instead of the keys and values of all heads. The projection of keys moves to the queries, and
/// that of values behind the weighted sum, so that the latent rows are the only key of all heads, and their start the value:
/// a score costs more, but no token is projected twice.
#[derive(Debug)]
pub(crate) struct LatentAttention {
    /// The query projection.
    pub query: QueryProjection,
    /// Projects rows to latent rows followed by a rotated key that all heads share.
    pub compress: Linear,
    /// Normalises latent rows.
    pub norm: Norm,
    /// Projects the queries of each head to latent rows.
    pub to_latent: PerHead,
    /// Projects latent rows to the values of each head.
    pub from_latent: PerHead,
    /// The output projection.
    pub output: Linear,
    /// The sizes of heads.
    pub sizes: LatentSizes,
    /// How scores are computed.
    pub options: AttentionOptions,
}

/// The sizes of latent attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatentSizes {
    /// The number of heads.
    pub heads: usize,
    /// The width of a latent row.
    pub latent: usize,
    /// The unrotated and the rotated dimensions of queries and keys.
    pub plain: usize,
    pub rotated: usize,
    /// The width of values.
    pub value: usize,
}

impl LatentSizes {
    /// What a layer stores.
    pub(crate) fn layer(self) -> LayerShape {
        let rows =
            RowShape { heads: 1, width: self.latent + self.rotated, values_in_keys: Some(self.latent) };
        LayerShape { rows: Some(rows), states: Vec::new() }
    }
}

/// A query projection.
#[derive(Debug)]
pub(crate) enum QueryProjection {
    /// One matrix.
    Direct(Linear),
    /// The product of two, with a norm in between.
    Narrow(Linear, Norm, Linear),
}

impl QueryProjection {
    fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        match self {
            Self::Direct(query) => Ok(query.forward(rows)?),
            Self::Narrow(down, norm, up) => Ok(up.forward(&norm.forward(&down.forward(rows)?)?)?),
        }
    }
}

impl LatentAttention {
    /// Computes the output for rows `[rows, hidden]`.
    pub(crate) fn attend(
        &self,
        rows: &Tensor,
        angles: Option<&Angles>,
        batch: &Batch,
        cache: &LayerCache,
    ) -> Result<Tensor> {
        let LatentSizes { heads, latent, plain, rotated, value } = self.sizes;
        let rotate = |heads: &Tensor| angles.map_or_else(|| Ok(heads.clone()), |angles| angles.apply(heads));
        let count = rows.dim(0)?;
        let queries = self.query.forward(rows)?.reshape((count, heads, plain + rotated))?;
        let turned = rotate(&queries.narrow(D::Minus1, plain, rotated)?)?;
        let queries = self.to_latent.forward(&queries.narrow(D::Minus1, 0, plain)?)?;
        let queries = Tensor::cat(&[&queries, &turned], 2)?;
        let compressed = self.compress.forward(rows)?;
        let key = self.norm.forward(&compressed.narrow(1, 0, latent)?)?.unsqueeze(1)?;
        let turned = rotate(&compressed.narrow(1, latent, rotated)?.unsqueeze(1)?)?;
        let cache = cache.rows()?;
        cache.write(batch, &Tensor::cat(&[&key, &turned], 2)?, None)?;
        let made = attend(&queries, &self.options, batch, cache)?.reshape((count, heads, latent))?;
        let made = self.from_latent.forward(&made)?.reshape((count, heads * value))?;
        Ok(self.output.forward(&made)?)
    }
}
