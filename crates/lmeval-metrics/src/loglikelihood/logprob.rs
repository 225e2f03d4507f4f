//! The metric `logprob`.

use super::target::one_target;
use super::{ANY_OPTION, number_metric};
use crate::metric::Metric;
use crate::number::Number;

/// `logprob`: the log-likelihood of the target.
pub fn logprob() -> Metric<Number> {
    number_metric("logprob", ANY_OPTION, |reference, results| {
        let target = one_target(reference, results.lls.len())?;
        Ok(Number::Float(results.lls[target]))
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;

    #[test]
    fn scores_the_target() {
        assert_eq!(number(&logprob(), &three_options(), 2), -6.0);
        assert_eq!(number(&logprob(), &three_options(), -1), -6.0);
        assert!(value(&logprob(), &three_options(), 3).is_err());
    }
}
