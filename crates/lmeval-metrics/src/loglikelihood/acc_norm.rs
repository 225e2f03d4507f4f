//! The metric `acc_norm`.

use super::target::is_target;
use super::{CHOICE, number_metric, per_length};
use crate::metric::Metric;
use crate::number::Number;
use crate::vector::argmax;

/// `acc_norm`: 1 if the option with the highest log-likelihood per character is a target, else 0.
pub fn acc_norm() -> Metric<Number> {
    number_metric("acc_norm", CHOICE, |reference, results| {
        is_target(argmax(&per_length(results, &results.option_char_len()))?, reference)
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options};
    use super::*;
    use crate::ll_results::LLResults;

    #[test]
    fn divides_by_characters() {
        assert_eq!(number(&acc_norm(), &three_options(), 2), 1.0);
        let options = |texts: [&str; 2], lls: [f64; 2]| LLResults {
            lls: lls.to_vec(),
            choices: texts.map(str::to_owned).to_vec(),
            ..LLResults::default()
        };
        assert_eq!(number(&acc_norm(), &options(["", "ab"], [-1.0, -2.0]), 1), 1.0);
        assert_eq!(number(&acc_norm(), &options(["", "ab"], [0.0, -2.0]), 0), 1.0);
        assert_eq!(number(&acc_norm(), &options(["é", "a"], [-2.0, -1.5]), 1), 1.0);
        // The delimiter is not counted.
        let sent = options([" ab", " abcdef"], [-2.2, -6.0]);
        assert_eq!(number(&acc_norm(), &sent, 0), 1.0);
        let bare = sent.with_option_texts(vec!["ab".to_owned(), "abcdef".to_owned()]);
        assert_eq!(number(&acc_norm(), &bare, 1), 1.0);
    }
}
