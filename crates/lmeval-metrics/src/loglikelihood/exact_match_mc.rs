//! The metric `exact_match_mc`.

use super::target::any_flag;
use super::{CHOICE, number_metric};
use crate::metric::Metric;
use crate::number::Number;

/// `exact_match_mc`: 1 if a target is the greedy continuation, else 0.
pub fn exact_match_mc() -> Metric<Number> {
    number_metric("exact_match_mc", CHOICE, |reference, results| any_flag(&results.is_greedy, reference))
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn scores_the_greedy_option() {
        let options = three_options();
        assert_eq!(number(&exact_match_mc(), &options, 1), 1.0);
        assert_eq!(number(&exact_match_mc(), &options, -100), 0.0);
        assert_eq!(number(&exact_match_mc(), &options, Value::list([])), 0.0);
        assert!(value(&exact_match_mc(), &options, 3).is_err());
    }
}
