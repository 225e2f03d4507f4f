//! The aggregation `perplexity`.

use super::{Aggregation, Resample, Totals, exp};
use crate::error::MetricError;
use crate::number::Number;

/// Perplexity of log-likelihoods: `exp(−Σx / n)`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Perplexity;

impl Aggregation<Number> for Perplexity {
    fn name(&self) -> Option<&'static str> {
        Some("perplexity")
    }

    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        Totals::prepare(values.iter().map(|value| [value.to_f64()]), |[total], count| {
            exp(-(total / count as f64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_of_certainty_is_one() {
        assert_eq!(Perplexity.aggregate(&[Number::Int(0), Number::Int(0)]).unwrap().to_f64(), 1.0);
        let impossible = [Number::Float(f64::NEG_INFINITY)];
        assert_eq!(Perplexity.aggregate(&impossible).unwrap().to_f64(), f64::INFINITY);
        assert!(matches!(Perplexity.aggregate(&[Number::Float(-1000.0)]), Err(MetricError::Overflow { .. })));
    }
}
