//! The reduction `take_first`.

use lmeval_pycompat::Value;

use super::{Reduced, Reduction};
use crate::error::MetricError;

/// The value of the first repeat.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakeFirst;

impl<T: Clone> Reduction<T, T> for TakeFirst {
    fn name(&self) -> Option<&'static str> {
        Some("take_first")
    }

    fn reduce(&self, _: &Value, values: &[T]) -> Result<Reduced<T>, MetricError> {
        values.first().cloned().map(Reduced::One).ok_or(MetricError::NoValues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_first() {
        assert_eq!(TakeFirst.reduce(&Value::None, &[3, 4]), Ok(Reduced::One(3)));
        assert_eq!(TakeFirst.reduce(&Value::None, &[0; 0]), Err(MetricError::NoValues));
    }
}
