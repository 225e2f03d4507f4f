//! The aggregation `weighted_mean`.

use super::{Aggregation, Resample, Totals, quotient};
use crate::error::MetricError;
use crate::item::Weighted;

/// The mean of totals divided by their weights: `Σa / Σb` over pairs `(a, b)`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WeightedMean;

impl Aggregation<Weighted> for WeightedMean {
    fn name(&self) -> Option<&'static str> {
        Some("weighted_mean")
    }

    fn prepare(&self, values: &[Weighted]) -> Result<Box<dyn Resample>, MetricError> {
        Totals::prepare(pairs(values), |totals, _| mean(totals))
    }
}

/// Totals and weights as floats to sum.
pub(super) fn pairs(values: &[Weighted]) -> impl Iterator<Item = [f64; 2]> {
    values.iter().map(|value| [value.total, value.weight.to_f64()])
}

/// The weighted mean from their sums.
pub(super) fn mean([total, weight]: [f64; 2]) -> Result<f64, MetricError> {
    quotient(total, weight, "the total weight")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn divides_by_total_weight() {
        let pair = |total, weight| Weighted { total, weight: Number::Int(weight) };
        let mean = WeightedMean.aggregate(&[pair(-10.0, 5), pair(-20.0, 3)]).unwrap();
        assert_eq!(mean.to_f64(), -3.75);
        assert!(WeightedMean.aggregate(&[pair(-10.0, 0)]).is_err());
        assert!(WeightedMean.aggregate(&[]).is_err());
    }
}
