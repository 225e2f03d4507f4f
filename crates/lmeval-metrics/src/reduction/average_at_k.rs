//! The reduction `avg@k`.

use lmeval_pycompat::Value;

use super::{Reduced, Reduction, for_each_k};
use crate::error::MetricError;
use crate::number::Number;

/// The mean over the first k repeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct AverageAtK {
    /// The values of k; empty for [`automatic_k`](super::automatic_k).
    pub k: Vec<usize>,
}

impl Reduction<Number, Number> for AverageAtK {
    fn reduce(&self, _: &Value, values: &[Number]) -> Result<Reduced<Number>, MetricError> {
        for_each_k("avg@", &self.k, values.len(), |k| {
            let total = values[..k].iter().fold(0.0, |total, value| total + value.to_f64());
            Number::Float(total / k as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_only_the_first_k() {
        let values = [1, 0, 0, 1].map(Number::Int);
        let reduced = AverageAtK { k: vec![2] }.reduce(&Value::None, &values).unwrap();
        assert_eq!(reduced, Reduced::Named(vec![("avg@2".to_owned(), Number::Float(0.5))]));
        assert!(AverageAtK { k: vec![5] }.reduce(&Value::None, &values).is_err());
        assert!(AverageAtK { k: vec![0] }.reduce(&Value::None, &values).is_err());
    }
}
