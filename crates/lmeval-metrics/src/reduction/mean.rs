//! The reduction `mean`.

use lmeval_pycompat::Value;

use super::{Reduced, Reduction};
use crate::aggregation::{Aggregation, Mean};
use crate::error::MetricError;
use crate::number::Number;

/// The mean over all repeats: `Σx / n`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanOfRepeats;

impl Reduction<Number, Number> for MeanOfRepeats {
    fn reduce(&self, _: &Value, values: &[Number]) -> Result<Reduced<Number>, MetricError> {
        Mean.aggregate(values).map(Reduced::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_repeats() {
        let values = [1, 0, 0, 1].map(Number::Int);
        let reduced = MeanOfRepeats.reduce(&Value::None, &values).unwrap();
        assert_eq!(reduced, Reduced::One(Number::Float(0.5)));
        assert!(MeanOfRepeats.reduce(&Value::None, &[]).is_err());
    }
}
