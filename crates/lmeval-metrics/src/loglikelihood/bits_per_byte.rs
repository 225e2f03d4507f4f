//! The metric `bits_per_byte`.

use std::sync::Arc;

use super::ROLLING;
use super::perplexity::weighted;
use crate::aggregation::{Aggregation, BitsPerByte};
use crate::error::MetricError;
use crate::item::Weighted;
use crate::metric::{CorpusMetric, MetricInput};
use crate::output_type::OutputType;

/// `bits_per_byte`: `−(Σll / Σbytes) / ln 2` over all documents; a document's value is its log-likelihood and byte
/// count.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitsPerByteOfText;

impl CorpusMetric for BitsPerByteOfText {
    type Item = Weighted;

    fn name(&self) -> &'static str {
        "bits_per_byte"
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
        Arc::new(BitsPerByte)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use crate::metric::Metric;
    use lmeval_pycompat::Value;

    #[test]
    fn divides_by_all_bytes() {
        let metric = Metric::from_corpus(BitsPerByteOfText);
        let value = value(&metric, &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Float(-6.0), Value::Int(9)]));
    }
}
