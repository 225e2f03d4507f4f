//! The metric `likelihood`.

use super::target::one_target;
use super::{CHOICE, metric};
use crate::aggregation::{Aggregation, Mean, Resample};
use crate::error::MetricError;
use crate::item::GoldLikelihoods;
use crate::metric::Metric;
use crate::number::Number;

/// `likelihood`: the mean log-likelihood of the target; a document's value is its target and the log-likelihoods of
/// all options, for aggregations of the task.
pub fn likelihood() -> Metric<GoldLikelihoods> {
    metric("likelihood", CHOICE, MeanOfGold, |reference, results| {
        Ok(GoldLikelihoods { gold: reference.clone(), lls: results.lls.clone() })
    })
}

struct MeanOfGold;

impl Aggregation<GoldLikelihoods> for MeanOfGold {
    fn prepare(&self, values: &[GoldLikelihoods]) -> Result<Box<dyn Resample>, MetricError> {
        let golds: Vec<Number> = values
            .iter()
            .map(|value| Ok(Number::Float(value.lls[one_target(&value.gold, value.lls.len())?])))
            .collect::<Result<_, MetricError>>()?;
        Mean.prepare(&golds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn averages_the_targets() {
        let metric = likelihood();
        let options = three_options();
        let value = value(&metric, &options, 2).unwrap();
        let lls = Value::tuple([-4.0, -3.0, -6.0].map(Value::Float));
        assert_eq!(value, Value::tuple([Value::Int(2), lls]));
        let item = |gold| GoldLikelihoods { gold: Value::Int(gold), lls: options.lls.clone() };
        assert_eq!(metric.aggregate(&[item(2), item(1)]).unwrap().to_f64(), -4.5);
        assert!(metric.aggregate(&[item(3)]).is_err());
    }
}
