//! Linear layers.

use candle_core::{Result, Tensor};

use crate::matrix::Matrix;

/// A linear layer: a matrix and an optional bias.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[output, input]`.
    matrix: Matrix,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer with a weight `[output, input]`, as most checkpoints store it.
    #[expect(clippy::unnecessary_wraps, reason = "callers use it like the other constructors")]
    pub fn new(weight: impl Into<Matrix>, bias: Option<Tensor>) -> Result<Self> {
        Ok(Self { matrix: weight.into(), bias })
    }

    /// A layer with a weight `[input, output]`, as GPT-2 stores it.
    pub fn from_transposed(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { matrix: Matrix::from_transposed(weight), bias }
    }

    /// A layer with some of the outputs, for splitting fused layers.
    pub fn outputs(&self, first: usize, count: usize) -> Result<Self> {
        let bias = self.bias.as_ref().map(|bias| bias.narrow(0, first, count)).transpose()?;
        Ok(Self { matrix: self.matrix.narrow(first, count)?, bias })
    }

    /// Computes the outputs of rows `[rows, input]`. On the CPU, the result of a row is bit-identical whatever the other rows
    /// are, and however many there are.
    pub fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let product = self.matrix.multiply(rows)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }

    /// The weight if it is a tensor as it is, without a bias.
    #[cfg(feature = "cuda")]
    pub(crate) fn plain(&self) -> Option<&Tensor> {
        self.matrix.plain().filter(|_| self.bias.is_none())
    }

    /// The weight as `[output, input]`.
    pub fn weight(&self) -> Result<Tensor> {
        self.matrix.tensor()
    }
}
