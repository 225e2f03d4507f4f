//! The metric `acc_bytes`.

use super::target::is_target;
use super::{CHOICE, number_metric, per_length};
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::argmax;

/// `acc_bytes`: 1 if the option with the highest log-likelihood per byte is a target, else 0.
pub fn acc_bytes() -> Metric<Number> {
    number_metric("acc_bytes", CHOICE, |reference, results| {
        is_target(argmax(&per_length(results, &results.option_byte_len()))?, reference)
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::number;
    use super::*;
    use crate::ll_results::LLResults;

    #[test]
    fn divides_by_bytes() {
        let options = LLResults {
            lls: vec![-2.0, -1.5],
            choices: vec!["é".to_owned(), "a".to_owned()],
            ..LLResults::default()
        };
        assert_eq!(number(&acc_bytes(), &options, 0), 1.0);
    }
}
