//! Linear layers.

use candle_core::{Result, Tensor};

/// A linear layer: a matrix and perhaps a bias.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[input, output]`, a view of what is stored.
    matrix: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer with a weight `[output, input]`, as most checkpoints store it.
    #[expect(clippy::needless_pass_by_value, reason = "a tensor is a handle, which the layer keeps")]
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Result<Self> {
        Ok(Self { matrix: weight.t()?, bias })
    }

    /// A layer with a weight `[input, output]`, as GPT-2 stores it.
    pub fn from_transposed(matrix: Tensor, bias: Option<Tensor>) -> Self {
        Self { matrix, bias }
    }

    /// The layer that computes some of the outputs only: fused layers are taken apart with it.
    pub fn outputs(&self, first: usize, count: usize) -> Result<Self> {
        let bias = self.bias.as_ref().map(|bias| bias.narrow(0, first, count)).transpose()?;
        Ok(Self { matrix: self.matrix.narrow(1, first, count)?, bias })
    }

    /// The outputs of rows `[rows, input]`.
    pub fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let product = rows.matmul(&self.matrix)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }

    /// The weight as `[output, input]`.
    pub fn weight(&self) -> Result<Tensor> {
        self.matrix.t()
    }
}
