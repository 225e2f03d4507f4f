//! The aggregation `weighted_perplexity`.

use super::weighted_mean::{mean, pairs};
use super::{Aggregation, Resample, Totals, exp};
use crate::error::MetricError;
use crate::item::Weighted;

/// Perplexity per unit of length: `exp(−Σa / Σb)` over pairs of log-likelihood and length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WeightedPerplexity;

impl Aggregation<Weighted> for WeightedPerplexity {
    fn name(&self) -> Option<&'static str> {
        Some("weighted_perplexity")
    }

    fn prepare(&self, values: &[Weighted]) -> Result<Box<dyn Resample>, MetricError> {
        Totals::prepare(pairs(values), |totals, _| exp(-mean(totals)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn sums_lengths_separately() {
        let items =
            [(-10.0, 5), (-20.0, 3)].map(|(total, weight)| Weighted { total, weight: Number::Int(weight) });
        let perplexity = WeightedPerplexity.aggregate(&items).unwrap().to_f64();
        assert_eq!(perplexity, 42.52108200006278);
    }
}
