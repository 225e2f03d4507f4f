//! `mean`.

use super::{Aggregation, Resample};
use crate::error::MetricError;
use crate::number::Number;

/// The arithmetic mean: `Σx / n`, added from the left in the order of the documents.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean;

impl Aggregation<Number> for Mean {
    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        if values.is_empty() {
            return Err(MetricError::NoValues);
        }
        Ok(Box::new(Means(values.iter().map(|value| value.to_f64()).collect())))
    }

    fn is_mean(&self) -> bool {
        true
    }
}

/// Numbers whose resamples have a mean.
pub(super) struct Means(pub(super) Vec<f64>);

impl Means {
    pub(super) fn mean(&self, draws: &[u32]) -> f64 {
        let total = draws.iter().fold(0.0, |total, draw| total + self.0[*draw as usize]);
        total / draws.len() as f64
    }
}

impl Resample for Means {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        Ok(self.mean(draws))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_add_from_the_left() {
        let tenths = [Number::Float(0.1); 10];
        assert_eq!(Mean.aggregate(&tenths).unwrap().to_f64(), 0.09999999999999999);
        assert!(Mean.aggregate(&[Number::Float(f64::NAN)]).unwrap().to_f64().is_nan());
        let infinities = [f64::INFINITY, f64::NEG_INFINITY].map(Number::Float);
        assert!(Mean.aggregate(&infinities).unwrap().to_f64().is_nan());
        assert_eq!(Mean.aggregate(&[]), Err(MetricError::NoValues));
    }
}
