//! `perplexity`.

use super::mean::Means;
use super::{Aggregation, Resample, exp};
use crate::error::MetricError;
use crate::number::Number;

/// Perplexity of log-likelihoods: `exp(−Σx / n)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Perplexity;

impl Aggregation<Number> for Perplexity {
    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        if values.is_empty() {
            return Err(MetricError::NoValues);
        }
        let numbers = values.iter().map(|value| value.to_f64()).collect();
        Ok(Box::new(Perplexities(Means(numbers))))
    }
}

struct Perplexities(Means);

impl Resample for Perplexities {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        exp(-self.0.mean(draws))
    }

    fn score_all(&self, draws: &[u32], count: usize, scores: &mut Vec<f64>) -> Result<(), MetricError> {
        self.0.each_mean(draws, count, |mean| {
            scores.push(exp(-mean)?);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_of_no_doubt_is_one() {
        assert_eq!(Perplexity.aggregate(&[Number::Int(0), Number::Int(0)]).unwrap().to_f64(), 1.0);
        let impossible = [Number::Float(f64::NEG_INFINITY)];
        assert_eq!(Perplexity.aggregate(&impossible).unwrap().to_f64(), f64::INFINITY);
        assert!(matches!(Perplexity.aggregate(&[Number::Float(-1000.0)]), Err(MetricError::Overflow { .. })));
    }
}
