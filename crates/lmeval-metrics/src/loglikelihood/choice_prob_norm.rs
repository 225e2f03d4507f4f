//! The metric `choice_prob_norm`.

use super::choice_logprob_norm::per_byte;
use super::{CHOICE, number_metric};
use crate::metric::Metric;
use crate::number::Number;

/// `choice_prob_norm`: the probability of the target among the options, normalised by bytes: `e^(w_g − ln Σ e^w)`
/// with `w = ll / bytes`.
pub fn choice_prob_norm() -> Metric<Number> {
    number_metric("choice_prob_norm", CHOICE, |reference, results| {
        Ok(Number::Float(per_byte(reference, results)?.exp()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options};
    use super::*;

    #[test]
    fn probabilities_sum_to_one() {
        let options = three_options();
        assert_eq!(number(&choice_prob_norm(), &options, 2), 0.4648720549505913);
        let total: f64 = (0..3).map(|target| number(&choice_prob_norm(), &options, target)).sum();
        assert!((total - 1.0).abs() < 1e-12);
    }
}
