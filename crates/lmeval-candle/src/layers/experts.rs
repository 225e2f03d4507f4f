//! Mixtures of experts.

use candle_core::{D, DType, Tensor};
use candle_nn::ops;

use super::linear::Linear;
use super::mlp::Mlp;
use crate::error::Result;

/// A mixture of experts: a router chooses a few experts per row.
#[derive(Debug)]
pub(crate) struct Experts {
    /// Scores the experts of each row.
    pub router: Linear,
    /// How it chooses.
    pub routing: Routing,
    /// The experts that it chooses from.
    pub routed: Vec<Mlp>,
    /// The expert of all rows, and its gate.
    pub shared: Option<(Mlp, Option<Linear>)>,
    /// Projections to the width of the rows that experts read, and back.
    pub narrowed: Option<(Linear, Linear)>,
}

/// How experts are chosen from the router's logits.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    /// The number of experts per row.
    pub chosen: usize,
    /// How logits become scores.
    pub scoring: Scoring,
    /// Added to scores to choose, but not to weigh.
    pub correction: Option<Vec<f32>>,
    /// Choose from a few groups of experts only.
    pub groups: Option<Groups>,
    /// How the weights of the chosen experts are scaled.
    pub normalise: Normalise,
    /// Scales all weights.
    pub scale: f32,
    /// Weigh what experts read instead of what they return.
    pub weighs_inputs: bool,
    /// Whether the router computes in float32, whatever the model computes in.
    pub is_wide: bool,
}

/// How logits of experts become scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scoring {
    /// The softmax over all experts.
    Softmax,
    /// The logits themselves, with the softmax over the chosen experts.
    SoftmaxOfChosen,
    /// The sigmoid of each.
    Sigmoid,
    /// The softmax over those experts whose logits are near the one chosen; each is chosen without the ones before.
    Near {
        /// Logits further below the largest one than this part of the larger absolute value are not near.
        distance: f32,
    },
}

/// How the weights of chosen experts are scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Normalise {
    /// Not at all.
    Never,
    /// To sum to 1; the number is added to their sum.
    Sum(f32),
    /// To sum to 1; their sum counts as at least this.
    AtLeast(f32),
}

/// Groups of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The number of groups.
    pub count: usize,
    /// The number of groups to choose from.
    pub chosen: usize,
    /// A group counts as the sum of this many of its best experts.
    pub best: usize,
}

impl Routing {
    /// The softmax over all experts.
    pub(crate) fn softmax(chosen: usize, normalise: bool) -> Self {
        Self {
            chosen,
            scoring: Scoring::Softmax,
            correction: None,
            groups: None,
            normalise: if normalise { Normalise::Sum(0.0) } else { Normalise::Never },
            scale: 1.0,
            weighs_inputs: false,
            is_wide: false,
        }
    }

    /// The experts chosen by their scores, and their weights. `scores` may be changed.
    fn choose(&self, scores: &mut [f32]) -> Vec<(usize, f32)> {
        if let Scoring::Near { distance } = self.scoring {
            return near(scores, self.chosen, distance);
        }
        let mut ranks: Vec<f32> = match &self.correction {
            Some(correction) => scores.iter().zip(correction).map(|(score, added)| score + added).collect(),
            None => scores.to_vec(),
        };
        if let Some(groups) = self.groups {
            groups.exclude(&mut ranks);
        }
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        // Stable, so that the first of equal scores wins.
        order.sort_by(|a, b| ranks[*b].total_cmp(&ranks[*a]));
        order.truncate(self.chosen);
        if self.scoring == Scoring::SoftmaxOfChosen {
            let largest = order.first().map_or(0.0, |expert| scores[*expert]);
            for expert in &order {
                scores[*expert] = (scores[*expert] - largest).exp();
            }
            let total: f32 = order.iter().map(|expert| scores[*expert]).sum();
            for expert in &order {
                scores[*expert] /= total;
            }
        }
        let sum = || order.iter().map(|expert| scores[*expert]).sum::<f32>();
        let total = match self.normalise {
            Normalise::Never => 1.0,
            Normalise::Sum(added) => sum() + added,
            Normalise::AtLeast(least) => sum().max(least),
        };
        let weigh = |expert: usize| (expert, scores[expert] / total * self.scale);
        order.into_iter().map(weigh).collect()
    }
}

impl Groups {
    /// Replaces the ranks of experts outside the best groups with minus infinity.
    fn exclude(self, ranks: &mut [f32]) {
        let width = (ranks.len() / self.count.max(1)).max(1);
        let worth = |group: &[f32]| {
            let mut group = group.to_vec();
            group.sort_by(|a, b| b.total_cmp(a));
            group.iter().take(self.best).sum::<f32>()
        };
        let worths: Vec<f32> = ranks.chunks(width).map(worth).collect();
        let mut order: Vec<usize> = (0..worths.len()).collect();
        order.sort_by(|a, b| worths[*b].total_cmp(&worths[*a]));
        for group in order.into_iter().skip(self.chosen) {
            ranks[group * width..][..width].fill(f32::NEG_INFINITY);
        }
    }
}

/// Chooses experts one by one, each weighed by the softmax over the logits near its own.
fn near(logits: &mut [f32], chosen: usize, distance: f32) -> Vec<(usize, f32)> {
    let mut found = Vec::with_capacity(chosen);
    let all = logits.to_vec();
    for _ in 0..chosen.min(logits.len()) {
        let best =
            (0..logits.len()).reduce(|best, next| if logits[next] > logits[best] { next } else { best });
        let Some(best) = best else { break };
        let largest = logits[best];
        let is_near = |logit: f32| (largest - logit) / logit.abs().max(largest) <= distance;
        let total: f32 = (0..logits.len())
            .filter(|expert| is_near(all[*expert]) && logits[*expert] > f32::NEG_INFINITY)
            .map(|expert| (logits[expert] - largest).exp())
            .sum();
        found.push((best, 1.0 / total));
        logits[best] = f32::NEG_INFINITY;
    }
    found
}

impl Experts {
    /// Computes the outputs of rows.
    pub(crate) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let logits = if self.routing.is_wide {
            self.router.forward(&rows.to_dtype(DType::F32)?)?
        } else {
            self.router.forward(rows)?.to_dtype(DType::F32)?
        };
        let scores = match self.routing.scoring {
            Scoring::Softmax => ops::softmax_last_dim(&logits)?,
            Scoring::Sigmoid => ops::sigmoid(&logits)?,
            Scoring::SoftmaxOfChosen | Scoring::Near { .. } => logits,
        };
        // For each expert, its rows and their weights.
        let mut work: Vec<(Vec<u32>, Vec<f32>)> = vec![Default::default(); self.routed.len()];
        for (row, mut scores) in scores.to_vec2::<f32>()?.into_iter().enumerate() {
            for (expert, weight) in self.routing.choose(&mut scores) {
                work[expert].0.push(row as u32);
                work[expert].1.push(weight);
            }
        }
        let read = match &self.narrowed {
            Some((narrow, _)) => &narrow.forward(rows)?,
            None => rows,
        };
        let mut made = read.zeros_like()?;
        for (expert, (indexes, weights)) in self.routed.iter().zip(work) {
            if indexes.is_empty() {
                continue;
            }
            let count = indexes.len();
            let indexes = Tensor::new(indexes, rows.device())?;
            let weights = Tensor::from_vec(weights, (count, 1), rows.device())?.to_dtype(rows.dtype())?;
            let inputs = read.index_select(&indexes, 0)?;
            let outputs = if self.routing.weighs_inputs {
                expert.forward(&inputs.broadcast_mul(&weights)?)?
            } else {
                expert.forward(&inputs)?.broadcast_mul(&weights)?
            };
            made = made.index_add(&indexes, &outputs, 0)?;
        }
        if let Some((_, widen)) = &self.narrowed {
            made = widen.forward(&made)?;
        }
        if let Some((shared, gate)) = &self.shared {
            let mut outputs = shared.forward(rows)?;
            if let Some(gate) = gate {
                let part = ops::sigmoid(&gate.forward(rows)?)?;
                debug_assert_eq!(part.dim(D::Minus1)?, 1);
                outputs = outputs.broadcast_mul(&part)?;
            }
            made = (made + outputs)?;
        }
        Ok(made)
    }
}
