//! Aggregations, which combine the values of all documents into one number. One file each.

mod bits_per_byte;
mod bypass;
mod f1;
mod labels;
mod matthews;
mod mean;
mod median;
mod nanmean;
mod perplexity;
mod totals;
mod weighted_mean;
mod weighted_perplexity;

use std::marker::PhantomData;
use std::sync::Arc;

use lmeval_pycompat::Value;

pub(crate) use self::bits_per_byte::BitsPerByte;
pub(crate) use self::bypass::Bypass;
pub use self::f1::{F1, F1Average};
pub(crate) use self::matthews::Matthews;
pub use self::mean::Mean;
pub use self::median::Median;
pub(crate) use self::nanmean::NanMean;
pub(crate) use self::perplexity::Perplexity;
pub(crate) use self::totals::{LANES, Totals};
pub(crate) use self::weighted_mean::WeightedMean;
pub(crate) use self::weighted_perplexity::WeightedPerplexity;
use crate::error::MetricError;
use crate::item::Item;
use crate::number::Number;

/// Combines the values of all documents into one number.
pub trait Aggregation<K>: Send + Sync {
    /// The registered name; `None` for an aggregation specific to one metric.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Precomputes everything that resamples of these values share.
    fn prepare(&self, values: &[K]) -> Result<Box<dyn Resample>, MetricError>;

    /// Aggregates all values.
    fn aggregate(&self, values: &[K]) -> Result<Number, MetricError> {
        let all: Vec<u32> = (0..values.len() as u32).collect();
        self.prepare(values)?.score(&all).map(Number::Float)
    }

    /// Whether this is the arithmetic mean, whose standard error has a closed form.
    fn is_mean(&self) -> bool {
        false
    }
}

/// Values prepared for resampling.
pub trait Resample: Send + Sync {
    /// Aggregates the values at these indices, which may repeat, in document order.
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError>;

    /// Appends the scores of several resamples of `count` indices each.
    fn score_all(&self, draws: &[u32], count: usize, scores: &mut Vec<f64>) -> Result<(), MetricError> {
        for draws in draws.chunks_exact(count) {
            scores.push(self.score(draws)?);
        }
        Ok(())
    }
}

/// A type-erased [`Aggregation`].
pub trait AnyAggregation: Send + Sync {
    /// The registered name.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Precomputes everything that resamples of these values share.
    fn prepare(&self, values: &[Value]) -> Result<Box<dyn Resample>, MetricError>;

    /// Aggregates all values.
    fn aggregate(&self, values: &[Value]) -> Result<Number, MetricError>;

    /// Whether this is the arithmetic mean, whose standard error has a closed form.
    fn is_mean(&self) -> bool;
}

/// Erases the type of an aggregation.
pub fn erase_aggregation<K: Item>(aggregation: Arc<dyn Aggregation<K>>) -> Arc<dyn AnyAggregation> {
    Arc::new(Erased { aggregation, item: PhantomData })
}

struct Erased<K> {
    aggregation: Arc<dyn Aggregation<K>>,
    item: PhantomData<K>,
}

impl<K: Item> AnyAggregation for Erased<K> {
    fn name(&self) -> Option<&'static str> {
        self.aggregation.name()
    }

    fn prepare(&self, values: &[Value]) -> Result<Box<dyn Resample>, MetricError> {
        self.aggregation.prepare(&K::from_values(values)?)
    }

    fn aggregate(&self, values: &[Value]) -> Result<Number, MetricError> {
        self.aggregation.aggregate(&K::from_values(values)?)
    }

    fn is_mean(&self) -> bool {
        self.aggregation.is_mean()
    }
}

/// Python's `math.exp`: overflow is an error, an infinite argument is not.
pub(crate) fn exp(argument: f64) -> Result<f64, MetricError> {
    let power = argument.exp();
    if power.is_infinite() && argument.is_finite() {
        return Err(MetricError::Overflow { argument });
    }
    Ok(power)
}

/// A quotient; division by zero is an error, as in Python.
pub(crate) fn quotient(above: f64, below: f64, what: &'static str) -> Result<f64, MetricError> {
    if below == 0.0 {
        return Err(MetricError::DivisionByZero { what });
    }
    Ok(above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_overflows_like_python() {
        assert!(matches!(exp(710.0), Err(MetricError::Overflow { .. })));
        assert_eq!(exp(f64::INFINITY), Ok(f64::INFINITY));
        assert_eq!(exp(f64::NEG_INFINITY), Ok(0.0));
        assert!(exp(f64::NAN).unwrap().is_nan());
        assert!(quotient(1.0, 0.0, "x").is_err());
    }
}
