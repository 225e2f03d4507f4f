//! The aggregation `nanmean`.

use super::{Aggregation, Resample};
use crate::error::MetricError;
use crate::number::Number;
use crate::vector::pairwise_sum;

/// The mean of the values that are not NaN, with numpy's summation; NaN if there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NanMean;

impl Aggregation<Number> for NanMean {
    fn name(&self) -> Option<&'static str> {
        Some("nanmean")
    }

    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Values(values.iter().map(|value| value.to_f64()).collect())))
    }
}

struct Values(Vec<f64>);

impl Resample for Values {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let mut count = 0_u32;
        // NaN is replaced by zero rather than removed, to keep the grouping of additions.
        let numbers: Vec<f64> = draws
            .iter()
            .map(|draw| {
                let number = self.0[*draw as usize];
                count += u32::from(!number.is_nan());
                if number.is_nan() { 0.0 } else { number }
            })
            .collect();
        Ok(if count == 0 { f64::NAN } else { pairwise_sum(&numbers) / f64::from(count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_nan() {
        let values = [1.0, f64::NAN, 4.0].map(Number::Float);
        assert_eq!(NanMean.aggregate(&values).unwrap().to_f64(), 2.5);
        assert!(NanMean.aggregate(&values[1..2]).unwrap().to_f64().is_nan());
        assert!(NanMean.aggregate(&[]).unwrap().to_f64().is_nan());
    }
}
