//! The aggregation `f1`.

use super::labels::{Label, LabelCount, LabelCounts, f1};
use super::{Aggregation, Resample};
use crate::error::MetricError;
use crate::item::LabelPair;
use crate::vector::pairwise_sum;

/// How the F1 scores of several labels are averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum F1Average {
    /// F1 of the label 1; requires at most two labels.
    #[default]
    Binary,
    /// F1 of the pooled counts of all labels, which equals accuracy.
    Micro,
    /// The mean over the labels.
    Macro,
    /// The mean over the labels, weighted by how often each is the gold label.
    Weighted,
}

/// F1 following scikit-learn: `2·TP / (2·TP + FP + FN)`; 0 if undefined.
#[derive(Clone, Copy, Debug, Default)]
pub struct F1 {
    /// How the scores of labels are averaged.
    pub average: F1Average,
}

impl Aggregation<LabelPair> for F1 {
    fn name(&self) -> Option<&'static str> {
        Some("f1")
    }

    fn prepare(&self, values: &[LabelPair]) -> Result<Box<dyn Resample>, MetricError> {
        Ok(Box::new(Scores { counts: LabelCounts::new(values)?, average: self.average }))
    }
}

struct Scores {
    counts: LabelCounts,
    average: F1Average,
}

impl Resample for Scores {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        let counts = self.counts.count(draws);
        match self.average {
            F1Average::Binary => binary(&counts),
            F1Average::Micro => {
                let right = counts.iter().map(|count| count.right).sum();
                let all = draws.len() as u64;
                Ok(f1(right, all, all))
            }
            F1Average::Macro => {
                let scores: Vec<f64> = counts.iter().map(LabelCount::f1).collect();
                Ok(pairwise_sum(&scores) / scores.len() as f64)
            }
            F1Average::Weighted => {
                let scores: Vec<f64> = counts.iter().map(|count| count.f1() * count.gold as f64).collect();
                Ok(pairwise_sum(&scores) / draws.len() as f64)
            }
        }
    }
}

fn binary(counts: &[LabelCount<'_>]) -> Result<f64, MetricError> {
    if counts.len() > 2 {
        return Err(MetricError::Multiclass { count: counts.len() });
    }
    match counts.iter().find(|count| *count.label == Label::Int(1)) {
        Some(count) => Ok(count.f1()),
        None if counts.len() == 2 => Err(MetricError::NoPositiveLabel {
            labels: counts
                .iter()
                .map(|count| match count.label {
                    Label::Int(number) => format!("`{number}`"),
                    Label::Text(text) => format!("`{text}`"),
                })
                .collect::<Vec<_>>()
                .join(", "),
        }),
        None => Ok(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmeval_pycompat::Value;

    fn score(average: F1Average, golds: &[i64], predictions: &[i64]) -> Result<f64, MetricError> {
        let items: Vec<LabelPair> = golds
            .iter()
            .zip(predictions)
            .map(|(gold, prediction)| LabelPair {
                gold: Value::Int(*gold),
                prediction: Value::Int(*prediction),
            })
            .collect();
        F1 { average }.aggregate(&items).map(crate::Number::to_f64)
    }

    #[test]
    fn binary_f1_is_of_label_one() {
        let binary = |golds: &[i64], predictions: &[i64]| score(F1Average::Binary, golds, predictions);
        assert_eq!(binary(&[0, 1, 1, 0], &[0, 1, 0, 1]), Ok(0.5));
        assert_eq!(binary(&[1, 1], &[1, 1]), Ok(1.0));
        assert_eq!(binary(&[0, 0], &[0, 0]), Ok(0.0));
        assert_eq!(binary(&[1, 3], &[1, 3]), Ok(1.0));
        assert!(matches!(binary(&[0, 2], &[0, 2]), Err(MetricError::NoPositiveLabel { .. })));
        assert!(matches!(binary(&[0, 1], &[0, 2]), Err(MetricError::Multiclass { count: 3 })));
        assert_eq!(binary(&[], &[]), Err(MetricError::NoValues));
    }

    #[test]
    fn averages_match_scikit_learn() {
        let golds = [0, 1, 2, 2, 1, 0, 2];
        let predictions = [0, 2, 2, 1, 1, 0, 0];
        assert_eq!(score(F1Average::Micro, &golds, &predictions), Ok(0.5714285714285714));
        assert_eq!(score(F1Average::Macro, &golds, &predictions), Ok(0.5666666666666668));
        assert_eq!(score(F1Average::Weighted, &golds, &predictions), Ok(0.5428571428571429));
    }

    #[test]
    fn rejects_lists_as_labels() {
        let item = LabelPair { gold: Value::list([Value::Int(1)]), prediction: Value::Int(1) };
        assert!(F1::default().aggregate(&[item]).is_err());
    }
}
