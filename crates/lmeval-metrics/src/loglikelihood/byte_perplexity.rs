//! The metric `byte_perplexity`.

use super::perplexity::weighted;
use super::{ROLLING, metric};
use crate::aggregation::WeightedPerplexity;
use crate::item::Weighted;
use crate::metric::Metric;

/// `byte_perplexity`: `exp(−Σll / Σbytes)` over all documents; a document's value is its log-likelihood and byte
/// count.
pub fn byte_perplexity() -> Metric<Weighted> {
    metric("byte_perplexity", ROLLING, WeightedPerplexity, |reference, results| {
        weighted(reference, results, &results.byte_len())
    })
    .lower_is_better()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn counts_bytes() {
        let value = value(&byte_perplexity(), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Float(-6.0), Value::Int(9)]));
    }
}
