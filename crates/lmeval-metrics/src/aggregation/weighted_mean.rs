//! `weighted_mean`.

use super::{Aggregation, Resample, quotient};
use crate::error::MetricError;
use crate::item::Weighted;

/// The mean of totals by their weights: `Σa / Σb` over pairs `(a, b)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedMean;

impl Aggregation<Weighted> for WeightedMean {
    fn prepare(&self, values: &[Weighted]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Pairs::new(values)?))
    }
}

/// Totals and weights whose resamples have a weighted mean.
pub(super) struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    pub(super) fn new(values: &[Weighted]) -> Result<Self, MetricError> {
        if values.is_empty() {
            return Err(MetricError::NoValues);
        }
        let pairs = values.iter().map(|value| (value.total, value.weight.to_f64()));
        Ok(Self(pairs.collect()))
    }

    pub(super) fn mean(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let (totals, weights) = draws.iter().fold((0.0, 0.0), |(totals, weights), draw| {
            let (total, weight) = self.0[*draw as usize];
            (totals + total, weights + weight)
        });
        quotient(totals, weights, "the total weight")
    }
}

impl Resample for Pairs {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        self.mean(draws)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn weights_divide() {
        let pair = |total, weight| Weighted { total, weight: Number::Int(weight) };
        let mean = WeightedMean.aggregate(&[pair(-10.0, 5), pair(-20.0, 3)]).unwrap();
        assert_eq!(mean.to_f64(), -3.75);
        assert!(WeightedMean.aggregate(&[pair(-10.0, 0)]).is_err());
        assert!(WeightedMean.aggregate(&[]).is_err());
    }
}
