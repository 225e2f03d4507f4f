//! The metric `brier_score`.

use super::target::all_targets;
use super::{CHOICE, number_metric};
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::{pairwise_sum, softmax};

/// `brier_score`: `Σ (p_i − [i = g])²`, with `p` the softmax of the log-likelihoods. Lower is better.
///
/// With several targets, all of them are treated as correct.
pub fn brier_score() -> Metric<Number> {
    number_metric("brier_score", CHOICE, |reference, results| {
        let mut distances = softmax(&results.lls);
        let mut targets = all_targets(reference, distances.len())?;
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            distances[target] -= 1.0;
        }
        let squares: Vec<f64> = distances.iter().map(|distance| distance * distance).collect();
        Ok(Number::Float(pairwise_sum(&squares)))
    })
    .lower_is_better()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;
    use crate::ll_results::LLResults;

    #[test]
    fn squared_distance_from_certainty() {
        assert_eq!(number(&brier_score(), &three_options(), 2), 1.4959010158206711);
        let lls = |lls: &[f64]| LLResults { lls: lls.to_vec(), ..LLResults::default() };
        assert_eq!(number(&brier_score(), &lls(&[-1.0; 3]), 0), 0.6666666666666667);
        assert_eq!(number(&brier_score(), &lls(&[f64::NEG_INFINITY, -1.0]), 0), 2.0);
        assert!(number(&brier_score(), &lls(&[f64::NEG_INFINITY; 2]), 0).is_nan());
        assert!(value(&brier_score(), &lls(&[-1.0; 3]), 5).is_err());
    }
}
