//! The aggregation `bits_per_byte`.

use std::f64::consts::LN_2;

use super::weighted_mean::{mean, pairs};
use super::{Aggregation, Resample, Totals};
use crate::error::MetricError;
use crate::item::Weighted;

/// Bits per unit of length: `−(Σa / Σb) / ln 2` over pairs of log-likelihood and length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BitsPerByte;

impl Aggregation<Weighted> for BitsPerByte {
    fn name(&self) -> Option<&'static str> {
        Some("bits_per_byte")
    }

    fn prepare(&self, values: &[Weighted]) -> Result<Box<dyn Resample>, MetricError> {
        Totals::prepare(pairs(values), |totals, _| Ok(-mean(totals)? / LN_2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::Number;

    #[test]
    fn converts_nats_to_bits() {
        let items =
            [(-10.0, 5), (-20.0, 3)].map(|(total, weight)| Weighted { total, weight: Number::Int(weight) });
        assert_eq!(BitsPerByte.aggregate(&items).unwrap().to_f64(), 5.410106403333613);
    }
}
