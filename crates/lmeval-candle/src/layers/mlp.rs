//! Feed-forward layers.

use candle_core::Tensor;

use super::activation::Activation;
use super::linear::Linear;
use crate::error::Result;

/// A feed-forward layer.
#[derive(Debug)]
pub(crate) struct Mlp {
    /// The gate projection of a gated layer.
    pub gate: Option<Linear>,
    /// The projection to the inner width.
    pub up: Linear,
    /// The projection back to the hidden size.
    pub down: Linear,
    /// The activation of the gate, or of the inner rows without one.
    pub activation: Activation,
}

impl Mlp {
    /// Computes the outputs of rows.
    pub(crate) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let up = self.up.forward(rows)?;
        let inner = match &self.gate {
            Some(gate) => self.activation.gated_in_place(&gate.forward(rows)?, &up)?,
            None => self.activation.forward(&up)?,
        };
        Ok(self.down.forward(&inner)?)
    }
}
