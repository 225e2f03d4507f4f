//! Norms.

use candle_core::{Result, Tensor};
use candle_nn::ops;

/// A norm over the width of each row.
#[derive(Clone, Debug)]
pub enum Norm {
    /// By the root of the mean square.
    Rms {
        /// What rows are multiplied with.
        weight: Tensor,
        /// What is added to the mean square.
        epsilon: f32,
    },
    /// By mean and variance.
    Layer {
        /// What rows are multiplied with.
        weight: Tensor,
        /// What is added to rows.
        bias: Tensor,
        /// What is added to the variance.
        epsilon: f32,
    },
    /// By mean and variance, of heads `[rows, heads, width]` that have weights of their own.
    Heads {
        /// What heads are multiplied with: `[heads, width]`.
        weight: Tensor,
        /// What is added to the variance.
        epsilon: f32,
    },
}

impl Norm {
    /// The norm of rows: of the last dimension, whatever stands before it.
    pub fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let rows = rows.contiguous()?;
        match self {
            // Weights that must not be rounded are in 32 bits, whatever the model computes in.
            Self::Rms { weight, epsilon } if weight.dtype() != rows.dtype() => {
                ops::rms_norm(&rows.to_dtype(weight.dtype())?, weight, *epsilon)?.to_dtype(rows.dtype())
            }
            Self::Rms { weight, epsilon } => ops::rms_norm(&rows, weight, *epsilon),
            Self::Layer { weight, bias, epsilon } => ops::layer_norm(&rows, weight, bias, *epsilon),
            Self::Heads { weight, epsilon } => {
                let ones = weight.get(0)?.ones_like()?;
                ops::layer_norm(&rows, &ones, &ones.zeros_like()?, *epsilon)?.broadcast_mul(weight)
            }
        }
    }
}
