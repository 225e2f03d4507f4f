//! The metric `acc_mutual_info`.

use super::target::is_target;
use super::{CHOICE, number_metric};
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::argmax;

/// `acc_mutual_info`: 1 if the option that gains most from the context is a target, else 0.
///
/// The gain is the option's log-likelihood with the context minus its log-likelihood without it.
pub fn acc_mutual_info() -> Metric<Number> {
    number_metric("acc_mutual_info", CHOICE, |reference, results| {
        is_target(argmax(&results.lls_mutual_info)?, reference)
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;
    use crate::ll_results::LLResults;

    #[test]
    fn scores_the_gain() {
        assert_eq!(number(&acc_mutual_info(), &three_options(), 0), 1.0);
        assert!(value(&acc_mutual_info(), &LLResults::default(), 0).is_err());
    }
}
