//! The metric `acc`.

use super::target::is_target;
use super::{ANY_OPTION, number_metric};
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::argmax;

/// `acc`: 1 if the most likely option is a target, else 0.
///
/// Ties go to the first option. With only one option, the value is whether the option is the greedy continuation.
pub fn acc() -> Metric<Number> {
    number_metric("acc", ANY_OPTION, |reference, results| {
        if let ([_], Some(greedy)) = (&results.lls[..], results.is_greedy.first()) {
            return Ok(Number::from(*greedy));
        }
        is_target(argmax(&results.lls)?, reference)
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;
    use crate::ll_results::LLResults;
    use lmeval_pycompat::Value;

    #[test]
    fn scores_the_most_likely_option() {
        let options = three_options();
        assert_eq!(number(&acc(), &options, 1), 1.0);
        assert_eq!(number(&acc(), &options, 0), 0.0);
        assert_eq!(number(&acc(), &options, Value::list([Value::Int(0), Value::Int(1)])), 1.0);
        assert!(value(&acc(), &options, "x").is_err());
        assert!(value(&acc(), &LLResults::default(), 0).is_err());
        let lls = |lls: &[f64]| LLResults { lls: lls.to_vec(), ..LLResults::default() };
        assert_eq!(number(&acc(), &lls(&[-1.0, -1.0]), 0), 1.0);
        assert_eq!(number(&acc(), &lls(&[-1.0, f64::NAN, 0.0]), 1), 1.0);
        assert_eq!(number(&acc(), &lls(&[-1.0, -2.0]), -100), 0.0);
    }

    #[test]
    fn a_single_option_must_be_greedy() {
        let one = LLResults { lls: vec![-1.0], is_greedy: vec![false], ..LLResults::default() };
        assert_eq!(number(&acc(), &one, 0), 0.0);
    }
}
