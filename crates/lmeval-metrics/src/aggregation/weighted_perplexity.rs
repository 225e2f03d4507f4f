//! `weighted_perplexity`.

use super::weighted_mean::Pairs;
use super::{Aggregation, Resample, exp};
use crate::error::MetricError;
use crate::item::Weighted;

/// Perplexity per unit of length: `exp(−Σa / Σb)` over pairs of log-likelihood and length.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedPerplexity;

impl Aggregation<Weighted> for WeightedPerplexity {
    fn prepare(&self, values: &[Weighted]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Perplexities(Pairs::new(values)?)))
    }
}

struct Perplexities(Pairs);

impl Resample for Perplexities {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        exp(-self.0.mean(draws)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn lengths_are_summed_apart() {
        let items =
            [(-10.0, 5), (-20.0, 3)].map(|(total, weight)| Weighted { total, weight: Number::Int(weight) });
        let perplexity = WeightedPerplexity.aggregate(&items).unwrap().to_f64();
        assert_eq!(perplexity, 42.52108200006278);
    }
}
