//! A matrix per head.

use candle_core::{Result, Tensor};

use super::linear::Linear;

/// Projects the rows of each head with its own matrix.
#[derive(Debug)]
pub(crate) struct PerHead {
    /// The matrices of all heads, `[heads, input, output]`.
    all: Tensor,
    /// The same one by one, for the CPU.
    each: Vec<Linear>,
}

impl PerHead {
    /// Creates the layer from matrices `[heads, input, output]`.
    pub(crate) fn new(matrices: &Tensor) -> Result<Self> {
        let all = matrices.contiguous()?;
        let each = (0..all.dim(0)?).map(|head| Ok(Linear::from_transposed(all.get(head)?, None)));
        Ok(Self { each: each.collect::<Result<_>>()?, all })
    }

    /// Computes `[rows, heads, output]` from `[rows, heads, input]`. Like [`Linear`], it gives the same bits for a row on the
    /// CPU whatever the other rows are.
    pub(crate) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        if !rows.device().is_cpu() {
            let by_head = rows.transpose(0, 1)?.contiguous()?;
            return by_head.matmul(&self.all)?.transpose(0, 1)?.contiguous();
        }
        let heads = self.each.iter().enumerate();
        let made =
            heads.map(|(head, matrix)| matrix.forward(&rows.narrow(1, head, 1)?.squeeze(1)?.contiguous()?));
        Tensor::stack(&made.collect::<Result<Vec<_>>>()?, 1)
    }
}
