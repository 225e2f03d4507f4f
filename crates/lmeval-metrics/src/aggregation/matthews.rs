//! The aggregation `matthews_corrcoef`.

use super::labels::LabelCounts;
use super::{Aggregation, Resample};
use crate::error::MetricError;
use crate::item::LabelPair;

/// Matthews correlation coefficient for any number of labels.
///
/// With `t` and `p` the counts of each label among golds and predictions, `c` the number of correct answers and `s`
/// the number of all answers: `(c·s − Σtp) / √((s² − Σp²)·(s² − Σt²))`; 0 if undefined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Matthews;

impl Aggregation<LabelPair> for Matthews {
    fn name(&self) -> Option<&'static str> {
        Some("matthews_corrcoef")
    }

    fn prepare(&self, values: &[LabelPair]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Scores(LabelCounts::new(values)?)))
    }
}

struct Scores(LabelCounts);

impl Resample for Scores {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let all = draws.len() as f64;
        let (mut right, mut both, mut golds, mut predictions) = (0.0, 0.0, 0.0, 0.0);
        for count in self.0.count(draws) {
            let (gold, predicted) = (count.gold as f64, count.predicted as f64);
            right += count.right as f64;
            both += gold * predicted;
            golds += gold * gold;
            predictions += predicted * predicted;
        }
        let spread = (all * all - predictions) * (all * all - golds);
        Ok(if spread == 0.0 { 0.0 } else { (right * all - both) / spread.sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmeval_pycompat::Value;

    #[test]
    fn supports_several_labels() {
        let score = |golds: &[i64], predictions: &[i64]| {
            let items: Vec<LabelPair> = golds
                .iter()
                .zip(predictions)
                .map(|(gold, prediction)| LabelPair {
                    gold: Value::Int(*gold),
                    prediction: Value::Int(*prediction),
                })
                .collect();
            Matthews.aggregate(&items).unwrap().to_f64()
        };
        assert_eq!(score(&[0, 1, 1, 0], &[0, 1, 0, 1]), 0.0);
        assert_eq!(score(&[0, 2], &[0, 2]), 1.0);
        assert_eq!(score(&[0, 1, 2], &[0, 1, 1]), 0.6123724356957946);
        assert_eq!(score(&[0, 1], &[0, 2]), 0.5);
        assert_eq!(score(&[1, 1], &[1, 1]), 0.0);
        let text = LabelPair { gold: "yes".into(), prediction: "no".into() };
        assert_eq!(Matthews.aggregate(&[text]).unwrap().to_f64(), 0.0);
        let mixed = LabelPair { gold: "1".into(), prediction: Value::Int(1) };
        assert!(Matthews.aggregate(&[mixed]).is_err());
    }
}
