//! The metric `bpb`.

use super::target::one_target;
use super::{ANY_OPTION, number_metric};
use crate::error::MetricError;
use crate::metric::Metric;
use crate::number::Number;

/// `bpb`: bits per byte of the target, `(−ll / bytes) · (1 / ln 2)`.
pub fn bpb() -> Metric<Number> {
    number_metric("bpb", ANY_OPTION, |reference, results| {
        let target = one_target(reference, results.lls.len())?;
        let lengths = results.byte_len();
        let length = lengths
            .get(target)
            .ok_or(MetricError::IndexOutOfRange { index: target as i64, count: lengths.len() })?;
        let per_byte = -results.lls[target] / length;
        Ok(Number::Float(per_byte * (1.0 / std::f64::consts::LN_2)))
    })
    .lower_is_better()
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{number, three_options, value};
    use super::*;
    use crate::ll_results::LLResults;
    use lmeval_pycompat::Value;

    #[test]
    fn includes_the_delimiter() {
        assert_eq!(number(&bpb(), &three_options(), 2), 0.9617966939259756);
        let empty = LLResults { lls: vec![-1.0], choices: vec![String::new()], ..LLResults::default() };
        assert_eq!(number(&bpb(), &empty, 0), f64::INFINITY);
        assert!(value(&bpb(), &three_options(), Value::list([Value::Int(0), Value::Int(1)])).is_err());
    }
}
