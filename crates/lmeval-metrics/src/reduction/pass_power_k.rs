//! The reduction `pass^k`.

use lmeval_pycompat::Value;

use super::{Reduced, Reduction, for_each_k, is_truthy};
use crate::error::MetricError;
use crate::number::Number;

/// The unbiased estimate, from all n repeats, of the probability that all of k repeats are correct:
/// `C(c, k) / C(n, k)` with c correct ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassPowerK {
    /// The values of k; empty for [`automatic_k`](super::automatic_k).
    pub k: Vec<usize>,
}

impl Reduction<Number, Number> for PassPowerK {
    fn reduce(&self, _: &Value, values: &[Number]) -> Result<Reduced<Number>, MetricError> {
        let right = values.iter().filter(|value| is_truthy(**value)).count();
        for_each_k("pass^", &self.k, values.len(), |k| {
            let chance = (0..k).fold(1.0, |product, i| {
                product * (right.saturating_sub(i) as f64 / (values.len() - i) as f64)
            });
            Number::Float(chance)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_all_to_be_correct() {
        let values = [1, 0, 1, 1].map(Number::Int);
        let reduced = PassPowerK { k: vec![1, 2, 4] }.reduce(&Value::None, &values).unwrap();
        let expected = [("pass^1", 0.75), ("pass^2", 0.5), ("pass^4", 0.0)];
        let expected = expected.map(|(name, value)| (name.to_owned(), Number::Float(value)));
        assert_eq!(reduced, Reduced::Named(expected.to_vec()));
        let error = PassPowerK { k: vec![5] }.reduce(&Value::None, &values);
        assert_eq!(error, Err(MetricError::TooFewRepeats { k: 5, count: 4 }));
    }
}
