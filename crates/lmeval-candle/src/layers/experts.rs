//! Mixtures of experts.

use candle_core::{D, DType, Tensor};
use candle_nn::ops;
use rayon::prelude::*;

#[cfg(feature = "cuda")]
use super::activation::Activation;
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
        // The first of equal scores wins.
        let better = |a: &usize, b: &usize| ranks[*b].total_cmp(&ranks[*a]).then(a.cmp(b));
        if (1..order.len()).contains(&self.chosen) {
            order.select_nth_unstable_by(self.chosen - 1, better);
        }
        order.truncate(self.chosen);
        order.sort_unstable_by(better);
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
        let (_, experts) = scores.dims2()?;
        let mut scores = scores.flatten_all()?.to_vec1::<f32>()?;
        let chosen = scores.par_chunks_mut(experts.max(1)).map(|scores| self.routing.choose(scores));
        let chosen: Vec<Vec<(usize, f32)>> = chosen.collect();
        let read = match &self.narrowed {
            Some((narrow, _)) => &narrow.forward(rows)?,
            None => rows,
        };
        let mut made = match self.at_once(read, &chosen)? {
            Some(made) => made,
            None => self.one_by_one(read, &chosen)?,
        };
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

    /// The weighted sums of what the chosen experts make of rows.
    fn one_by_one(&self, read: &Tensor, chosen: &[Vec<(usize, f32)>]) -> Result<Tensor> {
        // For each expert, its rows and their weights.
        let mut work: Vec<(Vec<u32>, Vec<f32>)> = vec![Default::default(); self.routed.len()];
        for (row, chosen) in chosen.iter().enumerate() {
            for (expert, weight) in chosen {
                work[*expert].0.push(row as u32);
                work[*expert].1.push(*weight);
            }
        }
        let mut made = read.zeros_like()?;
        for (expert, (indexes, weights)) in self.routed.iter().zip(work) {
            if indexes.is_empty() {
                continue;
            }
            let count = indexes.len();
            let indexes = Tensor::new(indexes, read.device())?;
            let weights = Tensor::from_vec(weights, (count, 1), read.device())?.to_dtype(read.dtype())?;
            let inputs = read.index_select(&indexes, 0)?;
            let outputs = if self.routing.weighs_inputs {
                expert.forward(&inputs.broadcast_mul(&weights)?)?
            } else {
                expert.forward(&inputs)?.broadcast_mul(&weights)?
            };
            made = made.index_add(&indexes, &outputs, 0)?;
        }
        Ok(made)
    }

    /// The same in a few kernels of a GPU, if there are some for it.
    #[cfg(feature = "cuda")]
    fn at_once(&self, read: &Tensor, chosen: &[Vec<(usize, f32)>]) -> Result<Option<Tensor>> {
        fn expert(mlp: &Mlp) -> Option<crate::cuda::Expert<'_>> {
            let gate = mlp.gate.as_ref()?.plain()?;
            Some(crate::cuda::Expert { gate, up: mlp.up.plain()?, down: mlp.down.plain()? })
        }
        let is_gated = self.routed.iter().all(|mlp| mlp.activation == Activation::Silu);
        if !read.device().is_cuda() || !is_gated || self.routing.weighs_inputs {
            return Ok(None);
        }
        match self.routed.iter().map(expert).collect::<Option<Vec<_>>>() {
            Some(experts) => Ok(crate::cuda::experts(read, &experts, chosen)?),
            None => Ok(None),
        }
    }

    /// There are none without a GPU.
    #[cfg(not(feature = "cuda"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "GPUs have kernels for it")]
    fn at_once(&self, _: &Tensor, _: &[Vec<(usize, f32)>]) -> Result<Option<Tensor>> {
        Ok(None)
    }
}
