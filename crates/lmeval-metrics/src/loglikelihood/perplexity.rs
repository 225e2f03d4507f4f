//! The metric `perplexity`.

use std::sync::Arc;

use lmeval_pycompat::Value;

use super::TARGET;
use super::target::one_target;
use crate::aggregation::{Aggregation, Perplexity};
use crate::error::MetricError;
use crate::item::Weighted;
use crate::ll_results::LLResults;
use crate::metric::{CorpusMetric, MetricInput};
use crate::number::Number;
use crate::output_type::OutputType;

/// `perplexity`: `exp(−Σll / n)` over all documents; a document's value is the log-likelihood of its target.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerplexityOfTarget;

impl CorpusMetric for PerplexityOfTarget {
    type Item = Number;

    fn name(&self) -> &'static str {
        "perplexity"
    }

    fn output_types(&self) -> &'static [OutputType] {
        TARGET
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn value(&self, input: MetricInput<'_>) -> Result<Number, MetricError> {
        let (reference, results) = input.likelihood()?;
        match results.lls[..] {
            [only] => Ok(Number::Float(only)),
            _ => Ok(Number::Float(results.lls[one_target(reference, results.lls.len())?])),
        }
    }

    fn aggregation(&self) -> Arc<dyn Aggregation<Number>> {
        Arc::new(Perplexity)
    }
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
    use crate::metric::Metric;

    #[test]
    fn one_answer_needs_no_target() {
        let metric = Metric::from_corpus(PerplexityOfTarget);
        let one = LLResults { lls: vec![-2.5], ..LLResults::default() };
        assert_eq!(number(&metric, &one, "some text"), -2.5);
        assert_eq!(number(&metric, &three_options(), 1), -3.0);
        assert!(value(&metric, &LLResults::default(), 0).is_err());
    }
}
