//! The metric `byte_perplexity`.

use std::sync::Arc;

use super::ROLLING;
use super::perplexity::weighted;
use crate::aggregation::{Aggregation, WeightedPerplexity};
use crate::error::MetricError;
use crate::item::Weighted;
use crate::metric::{CorpusMetric, MetricInput};
use crate::output_type::OutputType;

/// `byte_perplexity`: `exp(−Σll / Σbytes)` over all documents; a document's value is its log-likelihood and byte
/// count.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytePerplexity;

impl CorpusMetric for BytePerplexity {
    type Item = Weighted;

    fn name(&self) -> &'static str {
        "byte_perplexity"
    }

    fn output_types(&self) -> &'static [OutputType] {
        ROLLING
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn value(&self, input: MetricInput<'_>) -> Result<Weighted, MetricError> {
        let (reference, results) = input.likelihood()?;
        weighted(reference, results, &results.byte_len())
    }

    fn aggregation(&self) -> Arc<dyn Aggregation<Weighted>> {
        Arc::new(WeightedPerplexity)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use crate::metric::Metric;
    use lmeval_pycompat::Value;

    #[test]
    fn counts_bytes() {
        let value = value(&Metric::from_corpus(BytePerplexity), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Float(-6.0), Value::Int(9)]));
    }
}
