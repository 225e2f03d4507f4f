//! The aggregation `bypass`.

use super::{Aggregation, Resample};
use crate::error::MetricError;
use crate::number::Number;

/// The constant 999, for predict-only runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bypass;

impl<K> Aggregation<K> for Bypass {
    fn name(&self) -> Option<&'static str> {
        Some("bypass")
    }

    fn prepare(&self, _: &[K]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Constant))
    }

    fn aggregate(&self, _: &[K]) -> Result<Number, MetricError> {
        Ok(Number::Int(999))
    }
}

struct Constant;

impl Resample for Constant {
    fn score(&self, _: &[u32]) -> Result<f64, MetricError> {
        Ok(999.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_values() {
        assert!(matches!(Bypass.aggregate(&["x"]), Ok(Number::Int(999))));
        assert!(matches!(Aggregation::<&str>::aggregate(&Bypass, &[]), Ok(Number::Int(999))));
    }
}
