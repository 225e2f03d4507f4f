//! Feed-forward layers and mixtures of experts.

use candle_core::{D, DType, Tensor};
use candle_nn::ops;

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
            Some(gate) => self.activation.gated(&gate.forward(rows)?, &up)?,
            None => self.activation.forward(&up)?,
        };
        Ok(self.down.forward(&inner)?)
    }
}

/// A mixture of experts: a router chooses a few experts per row.
#[derive(Debug)]
pub(crate) struct Experts {
    /// Scores the experts of each row.
    pub router: Linear,
    /// The experts that it chooses from.
    pub routed: Vec<Mlp>,
    /// The number of experts per row.
    pub chosen: usize,
    /// Normalise the weights of the chosen experts to sum to 1.
    pub normalise: bool,
    /// The shared expert and its gate.
    pub shared: Option<(Mlp, Linear)>,
}

impl Experts {
    /// Computes the outputs of rows.
    pub(crate) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let scores = ops::softmax_last_dim(&self.router.forward(rows)?.to_dtype(DType::F32)?)?;
        let scores = scores.to_vec2::<f32>()?;
        // For each expert, its rows and their weights.
        let mut work: Vec<(Vec<u32>, Vec<f32>)> = vec![Default::default(); self.routed.len()];
        for (row, scores) in scores.iter().enumerate() {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            // Stable, so that the first of equal scores wins.
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            order.truncate(self.chosen);
            let total: f32 =
                if self.normalise { order.iter().map(|expert| scores[*expert]).sum() } else { 1.0 };
            for expert in order {
                work[expert].0.push(row as u32);
                work[expert].1.push(scores[expert] / total);
            }
        }
        let mut made = rows.zeros_like()?;
        for (expert, (indexes, weights)) in self.routed.iter().zip(work) {
            if indexes.is_empty() {
                continue;
            }
            let count = indexes.len();
            let indexes = Tensor::new(indexes, rows.device())?;
            let weights = Tensor::from_vec(weights, (count, 1), rows.device())?.to_dtype(rows.dtype())?;
            let outputs = expert.forward(&rows.index_select(&indexes, 0)?)?.broadcast_mul(&weights)?;
            made = made.index_add(&indexes, &outputs, 0)?;
        }
        if let Some((shared, gate)) = &self.shared {
            let part = ops::sigmoid(&gate.forward(rows)?)?;
            debug_assert_eq!(part.dim(D::Minus1)?, 1);
            made = (made + shared.forward(rows)?.broadcast_mul(&part)?)?;
        }
        Ok(made)
    }
}
