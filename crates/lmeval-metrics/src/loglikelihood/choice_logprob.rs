//! The metric `choice_logprob`.

use super::target::one_target;
use super::{CHOICE, number_metric};
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::log_sum_exp;

/// `choice_logprob`: the log-probability of the target among the options, `ll_g − ln Σ e^ll`.
pub fn choice_logprob() -> Metric<Number> {
    number_metric("choice_logprob", CHOICE, |reference, results| {
        let target = one_target(reference, results.lls.len())?;
        Ok(Number::Float(results.lls[target] - log_sum_exp(&results.lls)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options};
    use super::*;
    use crate::ll_results::LLResults;

    #[test]
    fn normalises_over_options() {
        assert_eq!(number(&choice_logprob(), &three_options(), 2), -3.3490122167681866);
        let low = f64::NEG_INFINITY;
        let lls = |lls: [f64; 2]| LLResults { lls: lls.to_vec(), ..LLResults::default() };
        assert_eq!(number(&choice_logprob(), &lls([low, -1.0]), 0), low);
        assert_eq!(number(&choice_logprob(), &lls([low, -1.0]), 1), 0.0);
        assert!(number(&choice_logprob(), &lls([low, low]), 0).is_nan());
    }
}
