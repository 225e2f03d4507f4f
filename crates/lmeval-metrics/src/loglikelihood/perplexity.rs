//! The metric `perplexity`.

use lmeval_pycompat::Value;

use super::target::one_target;
use super::{TARGET, metric};
use crate::aggregation::Perplexity;
use crate::error::MetricError;
use crate::item::Weighted;
use crate::ll_results::LLResults;
use crate::metric::Metric;
use crate::number::Number;

/// `perplexity`: `exp(−Σll / n)` over all documents; a document's value is the log-likelihood of its target.
pub fn perplexity() -> Metric<Number> {
    metric("perplexity", TARGET, Perplexity, |reference, results| match results.lls[..] {
        [only] => Ok(Number::Float(only)),
        _ => Ok(Number::Float(results.lls[one_target(reference, results.lls.len())?])),
    })
    .lower_is_better()
}

/// The log-likelihood of the target and its length.
pub(super) fn weighted(
    reference: &Value,
    results: &LLResults,
    lengths: &[f64],
) -> Result<Weighted, MetricError> {
    let count = results.lls.len().min(lengths.len());
    let target = one_target(reference, count)?;
    Ok(Weighted { total: results.lls[target], weight: Number::Int(lengths[target] as i64) })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;

    #[test]
    fn one_answer_needs_no_target() {
        let metric = perplexity();
        let one = LLResults { lls: vec![-2.5], ..LLResults::default() };
        assert_eq!(number(&metric, &one, "some text"), -2.5);
        assert_eq!(number(&metric, &three_options(), 1), -3.0);
        assert!(value(&metric, &LLResults::default(), 0).is_err());
    }
}
