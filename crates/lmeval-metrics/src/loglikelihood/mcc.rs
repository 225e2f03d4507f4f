//! The metric `mcc`.

use super::{CHOICE, label_pair, metric};
use crate::aggregation::Matthews;
use crate::item::LabelPair;
use crate::metric::Metric;

/// `mcc`: Matthews correlation coefficient; a document's value is its target and the most likely option.
pub fn mcc() -> Metric<LabelPair> {
    metric("mcc", CHOICE, Matthews, label_pair)
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn labels_are_indices() {
        let value = value(&mcc(), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Int(2), Value::Int(1)]));
    }
}
