//! The metric `choice_logprob_norm`.

use lmeval_pycompat::Value;

use super::target::one_target;
use super::{CHOICE, number_metric, per_length};
use crate::error::MetricError;
use crate::ll_results::LLResults;
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::log_sum_exp;

/// `choice_logprob_norm`: the log-probability of the target among the options, normalised by bytes: `w_g − ln Σ e^w`
/// with `w = ll / bytes`.
pub fn choice_logprob_norm() -> Metric<Number> {
    number_metric("choice_logprob_norm", CHOICE, |reference, results| {
        per_byte(reference, results).map(Number::Float)
    })
}

pub(super) fn per_byte(reference: &Value, results: &LLResults) -> Result<f64, MetricError> {
    let weights = per_length(results, &results.byte_len());
    let target = one_target(reference, weights.len())?;
    Ok(weights[target] - log_sum_exp(&weights))
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options};
    use super::*;

    #[test]
    fn divides_by_bytes_as_sent() {
        assert_eq!(number(&choice_logprob_norm(), &three_options(), 2), -0.765993061899554);
    }
}
