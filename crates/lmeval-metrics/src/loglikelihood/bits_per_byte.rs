//! The metric `bits_per_byte`.

use super::perplexity::weighted;
use super::{ROLLING, metric};
use crate::aggregation::BitsPerByte;
use crate::item::Weighted;
use crate::metric::Metric;

/// `bits_per_byte`: `−(Σll / Σbytes) / ln 2` over all documents; a document's value is its log-likelihood and byte
/// count.
pub fn bits_per_byte() -> Metric<Weighted> {
    metric("bits_per_byte", ROLLING, BitsPerByte, |reference, results| {
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
    fn divides_by_all_bytes() {
        let value = value(&bits_per_byte(), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Float(-6.0), Value::Int(9)]));
    }
}
