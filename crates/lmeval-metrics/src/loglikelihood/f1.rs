//! The metric `f1`.

use super::{CHOICE, label_pair, metric};
use crate::aggregation::F1;
use crate::item::LabelPair;
use crate::metric::Metric;

/// `f1`: F1 of the option with index 1; a document's value is its target and the most likely option.
pub fn f1() -> Metric<LabelPair> {
    metric("f1", CHOICE, F1::default(), label_pair)
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn labels_are_indices() {
        let value = value(&f1(), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Int(2), Value::Int(1)]));
    }
}
