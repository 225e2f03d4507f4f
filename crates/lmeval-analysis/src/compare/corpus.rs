//! Differences of metrics that are not means, such as BLEU, F1 and perplexity.

use lmeval_core::Diagnostic;
use lmeval_metrics::aggregation::AnyAggregation;
use lmeval_pycompat::Value;
use lmeval_pycompat::draws::Draws;
use rayon::prelude::*;

use super::difference::{Difference, Precision, Test};
use crate::Error;
use crate::stats::{Interval, moments};

/// Resamples that one generator draws.
const CHUNK: usize = 100;

/// Compares an aggregate of all documents by drawing the same documents with replacement for both runs.
///
/// The interval spans the middle of the resampled differences; the p-value is the share of them, shifted to a mean of 0,
/// that are at least as far from 0 as the observed one.
pub fn aggregates(
    aggregation: &dyn AnyAggregation,
    base: &[Value],
    new: &[Value],
    precision: &Precision,
) -> Result<Difference, Error> {
    let failed =
        |error| Diagnostic::new("The metric cannot be computed on the shared documents").caused_by(error);
    let count = base.len();
    let score = |values: &[Value]| Ok::<f64, Error>(aggregation.aggregate(values).map_err(failed)?.to_f64());
    let (base_score, new_score): (f64, f64) = (score(base)?, score(new)?);
    let difference = new_score - base_score;
    let prepared = [aggregation.prepare(base).map_err(failed)?, aggregation.prepare(new).map_err(failed)?];
    let chunks = precision.resamples.div_ceil(CHUNK) as u32;
    let drawn: Vec<Vec<f64>> = (0..chunks)
        .into_par_iter()
        .map(|chunk| {
            let mut draws =
                Draws::new((precision.seed as u32).wrapping_mul(chunks).wrapping_add(chunk), count);
            let mut positions = vec![0; count];
            let mut differences = Vec::with_capacity(CHUNK);
            for _ in 0..CHUNK {
                draws.fill(&mut positions);
                let [base, new] = &prepared;
                differences.push(new.score(&positions)? - base.score(&positions)?);
            }
            Ok(differences)
        })
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let mut drawn = drawn.concat();
    let extreme = drawn.iter().filter(|drawn| (*drawn - difference).abs() >= difference.abs()).count();
    let stderr = moments(&drawn).deviation;
    drawn.sort_unstable_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - precision.confidence);
    Ok(Difference {
        base: base_score,
        new: new_score,
        difference,
        stderr,
        interval: Interval { low: quantile(&drawn, tail), high: quantile(&drawn, 1.0 - tail) },
        p_value: (extreme + 1) as f64 / (drawn.len() + 1) as f64,
        test: Test::Bootstrap,
        count,
        up: 0,
        down: 0,
        clusters: None,
        detectable: f64::NAN,
        needed: None,
    }
    .with_power(precision))
}

/// A quantile of sorted values, interpolated between neighbours.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let (low, weight) = (position.floor() as usize, position.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + weight * (sorted[high] - sorted[low])
}
