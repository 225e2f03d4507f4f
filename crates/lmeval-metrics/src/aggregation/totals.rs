//! Resamples whose score depends on sums of floats.

use super::Resample;
use crate::error::MetricError;

/// The number of resamples summed side by side, so that additions do not wait for each other.
pub(crate) const LANES: usize = 8;

/// Numbers of each document, which a resample sums from the left, in the order of its draws.
pub(crate) struct Totals<const N: usize> {
    documents: Vec<[f64; N]>,
    /// Computes the score from the totals and the number of documents.
    score: fn([f64; N], usize) -> Result<f64, MetricError>,
}

impl<const N: usize> Totals<N> {
    /// Prepares resampling; fails if there are no documents.
    pub(crate) fn prepare(
        documents: impl IntoIterator<Item = [f64; N]>,
        score: fn([f64; N], usize) -> Result<f64, MetricError>,
    ) -> Result<Box<dyn Resample>, MetricError> {
        let documents: Vec<[f64; N]> = documents.into_iter().collect();
        if documents.is_empty() {
            return Err(MetricError::NoValues);
        }
        Ok(Box::new(Self { documents, score }))
    }

    fn add(&self, totals: &mut [f64; N], draw: u32) {
        for (total, number) in totals.iter_mut().zip(&self.documents[draw as usize]) {
            *total += number;
        }
    }
}

impl<const N: usize> Resample for Totals<N> {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let mut totals = [0.0; N];
        for draw in draws {
            self.add(&mut totals, *draw);
        }
        (self.score)(totals, draws.len())
    }

    fn score_all(&self, draws: &[u32], count: usize, scores: &mut Vec<f64>) -> Result<(), MetricError> {
        let groups = draws.chunks_exact(count * LANES);
        let rest = groups.remainder();
        for group in groups {
            let lanes: [&[u32]; LANES] = std::array::from_fn(|lane| &group[lane * count..][..count]);
            let mut totals = [[0.0; N]; LANES];
            for index in 0..count {
                for (totals, draws) in totals.iter_mut().zip(lanes) {
                    self.add(totals, draws[index]);
                }
            }
            for totals in totals {
                scores.push((self.score)(totals, count)?);
            }
        }
        for draws in rest.chunks_exact(count) {
            scores.push(self.score(draws)?);
        }
        Ok(())
    }
}
