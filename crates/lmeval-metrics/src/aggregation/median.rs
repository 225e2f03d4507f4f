//! The aggregation `median`.

use super::{Aggregation, Resample};
use crate::error::MetricError;
use crate::number::Number;

/// The upper median: the element at `⌊n/2⌋` of the sorted values.
///
/// NaN sorts last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Median;

impl Aggregation<Number> for Median {
    fn name(&self) -> Option<&'static str> {
        Some("median")
    }

    fn prepare(&self, values: &[Number]) -> Result<Box<dyn Resample>, MetricError> {
        if values.is_empty() {
            return Err(MetricError::NoValues);
        }
        let order = sorted(values);
        let mut ranks = vec![0; values.len()];
        for (rank, position) in order.iter().enumerate() {
            ranks[*position] = rank as u32;
        }
        Ok(Box::new(Ranks {
            ranks,
            sorted: order.iter().map(|position| values[*position].to_f64()).collect(),
        }))
    }

    fn aggregate(&self, values: &[Number]) -> Result<Number, MetricError> {
        let order = sorted(values);
        let middle = order.get(values.len() / 2).ok_or(MetricError::NoValues)?;
        Ok(values[*middle])
    }
}

fn sorted(values: &[Number]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| {
        let (left, right) = (values[*left].to_f64(), values[*right].to_f64());
        left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
    });
    order
}

/// The rank of each value, so that a resample is counted instead of sorted.
struct Ranks {
    ranks: Vec<u32>,
    sorted: Vec<f64>,
}

impl Resample for Ranks {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let mut counts = vec![0_u32; self.sorted.len()];
        for draw in draws {
            counts[self.ranks[*draw as usize] as usize] += 1;
        }
        let mut left = draws.len() / 2;
        for (count, value) in counts.iter().zip(&self.sorted) {
            let count = *count as usize;
            if count > left {
                return Ok(*value);
            }
            left -= count;
        }
        Err(MetricError::NoValues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_upper_median() {
        let values = [4.0, 1.0, 3.0, 2.0].map(Number::Float);
        assert_eq!(Median.aggregate(&values).unwrap(), Number::Float(3.0));
        let prepared = Median.prepare(&values).unwrap();
        assert_eq!(prepared.score(&[0, 1, 2, 3]), Ok(3.0));
        assert_eq!(prepared.score(&[1, 1, 1, 3]), Ok(1.0));
        assert!(matches!(Median.aggregate(&[Number::Int(0)]), Ok(Number::Int(0))));
        let holes = [f64::NAN, 2.0, 1.0].map(Number::Float);
        assert_eq!(Median.aggregate(&holes).unwrap(), Number::Float(2.0));
        assert!(Median.aggregate(&[]).is_err());
    }
}
