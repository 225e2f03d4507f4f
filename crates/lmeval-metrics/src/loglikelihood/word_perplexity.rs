//! The metric `word_perplexity`.

use super::perplexity::weighted;
use super::{ROLLING, metric};
use crate::aggregation::WeightedPerplexity;
use crate::item::Weighted;
use crate::metric::Metric;

/// `word_perplexity`: `exp(−Σll / Σwords)` over all documents; a document's value is its log-likelihood and word
/// count.
pub fn word_perplexity() -> Metric<Weighted> {
    metric("word_perplexity", ROLLING, WeightedPerplexity, |reference, results| {
        weighted(reference, results, &results.word_len())
    })
    .lower_is_better()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn counts_words() {
        let value = value(&word_perplexity(), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Float(-6.0), Value::Int(2)]));
    }
}
