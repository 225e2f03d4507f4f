//! `mean`.

use super::{Aggregation, LANES, Resample};
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

    /// Hands on the mean of each of several resamples.
    pub(super) fn each_mean(
        &self,
        draws: &[u32],
        count: usize,
        mut hand_on: impl FnMut(f64) -> Result<(), MetricError>,
    ) -> Result<(), MetricError> {
        let groups = draws.chunks_exact(count * LANES);
        let rest = groups.remainder();
        for group in groups {
            let (first, others) = group.split_at(2 * count);
            let ((a, b), (c, d)) = (first.split_at(count), others.split_at(count));
            let mut totals = [0.0; LANES];
            for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
                for (total, draw) in totals.iter_mut().zip([a, b, c, d]) {
                    *total += self.0[*draw as usize];
                }
            }
            for total in totals {
                hand_on(total / count as f64)?;
            }
        }
        for draws in rest.chunks_exact(count) {
            hand_on(self.mean(draws))?;
        }
        Ok(())
    }
}

impl Resample for Means {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        Ok(self.mean(draws))
    }

    fn score_all(&self, draws: &[u32], count: usize, scores: &mut Vec<f64>) -> Result<(), MetricError> {
        self.each_mean(draws, count, |mean| {
            scores.push(mean);
            Ok(())
        })
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
