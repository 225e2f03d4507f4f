//! The aggregation `mean`.

use super::{Aggregation, Resample, Totals};
use crate::error::MetricError;
use crate::number::Number;

/// The arithmetic mean: `Σx / n`, summed from the left in document order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean;

impl Aggregation<Number> for Mean {
    fn name(&self) -> Option<&'static str> {
        Some("mean")
    }

    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        Totals::prepare(
            values.iter().map(|value| [value.to_f64()]),
            |[total], count| Ok(total / count as f64),
        )
    }

    fn is_mean(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_from_the_left() {
        let tenths = [Number::Float(0.1); 10];
        assert_eq!(Mean.aggregate(&tenths).unwrap().to_f64(), 0.09999999999999999);
        assert!(Mean.aggregate(&[Number::Float(f64::NAN)]).unwrap().to_f64().is_nan());
        let infinities = [f64::INFINITY, f64::NEG_INFINITY].map(Number::Float);
        assert!(Mean.aggregate(&infinities).unwrap().to_f64().is_nan());
        assert_eq!(Mean.aggregate(&[]), Err(MetricError::NoValues));
    }
}
