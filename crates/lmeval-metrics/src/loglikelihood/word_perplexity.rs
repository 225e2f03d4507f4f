//! The metric `word_perplexity`.

use std::sync::Arc;

use super::ROLLING;
use super::perplexity::weighted;
use crate::aggregation::{Aggregation, WeightedPerplexity};
use crate::error::MetricError;
use crate::item::Weighted;
use crate::metric::{CorpusMetric, MetricInput};
use crate::output_type::OutputType;

/// `word_perplexity`: `exp(−Σll / Σwords)` over all documents; a document's value is its log-likelihood and word
/// count.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordPerplexity;

impl CorpusMetric for WordPerplexity {
    type Item = Weighted;

    fn name(&self) -> &'static str {
        "word_perplexity"
    }

    fn output_types(&self) -> &'static [OutputType] {
        ROLLING
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn value(&self, input: MetricInput<'_>) -> Result<Weighted, MetricError> {
        let (reference, results) = input.likelihood()?;
        weighted(reference, results, &results.word_len())
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
    fn counts_words() {
        let value = value(&Metric::from_corpus(WordPerplexity), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Float(-6.0), Value::Int(2)]));
    }
}
