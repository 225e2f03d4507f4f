//! Corpus metrics over pairs of references and predictions.

use std::ops::AddAssign;

use lmeval_pycompat::Value;

use super::GENERATION;
use crate::aggregation::{Aggregation, Resample};
use crate::error::MetricError;
use crate::item::TextPair;
use crate::metric::Metric;

/// A metric of generation tasks whose value for a document is its target, or list of targets, and its first answer.
pub(super) fn text_corpus(
    name: &'static str,
    aggregation: impl Aggregation<TextPair> + 'static,
) -> Metric<TextPair> {
    Metric::new(name, GENERATION, aggregation, |_| {
        Ok(Box::new(|input| {
            let (references, predictions) = input.generation()?;
            let prediction = predictions.first().ok_or(MetricError::NoValues)?;
            let pair = match references {
                [target] => TextPair::from_generation(target, prediction)?,
                _ => TextPair::from_generation(&Value::list(references.iter().cloned()), prediction)?,
            };
            Ok(vec![pair])
        }))
    })
}

/// The references of a document; fails if there are none.
pub(super) fn references(document: usize, pair: &TextPair) -> Result<Vec<&str>, MetricError> {
    let texts: Vec<&str> = pair.references.iter().flatten().map(AsRef::as_ref).collect();
    if texts.is_empty() {
        return Err(MetricError::NoReference { document });
    }
    Ok(texts)
}

/// Statistics of each document, which a resample sums before computing the score from the totals.
pub(super) struct Statistics<const N: usize> {
    documents: Vec<[u32; N]>,
    score: fn(&[u64; N]) -> f64,
    /// The maximum number of documents whose sum fits into 32 bits.
    few: usize,
}

impl<const N: usize> Statistics<N> {
    pub(super) fn new(documents: Vec<[u32; N]>, score: fn(&[u64; N]) -> f64) -> Self {
        let largest = documents.iter().flatten().max().copied().unwrap_or_default();
        Self { documents, score, few: u32::MAX.checked_div(largest).unwrap_or(u32::MAX) as usize }
    }

    fn totals<T: Copy + Default + AddAssign + From<u32>>(&self, draws: &[u32]) -> [T; N] {
        let mut totals = [T::default(); N];
        for draw in draws {
            for (total, count) in totals.iter_mut().zip(&self.documents[*draw as usize]) {
                *total += T::from(*count);
            }
        }
        totals
    }
}

impl<const N: usize> Resample for Statistics<N> {
    fn score(&self, draws: &[u32]) -> Result<f64, MetricError> {
        // For ten statistics, a draw takes 0.6 ns with 32 bits and 1.05 ns with 64.
        let totals = if draws.len() <= self.few {
            self.totals::<u32>(draws).map(u64::from)
        } else {
            self.totals::<u64>(draws)
        };
        Ok((self.score)(&totals))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{bleu, chrf, chrf_plus_plus, ter};
    use super::*;
    use crate::item::Item;
    use crate::metric::MetricInput;
    use lmeval_pycompat::Dict;

    /// The score of documents with their references and predictions.
    pub(in super::super) fn corpus(
        aggregation: &dyn Aggregation<TextPair>,
        documents: &[(&[&str], &str)],
    ) -> f64 {
        let pairs: Vec<TextPair> = documents
            .iter()
            .map(|(references, prediction)| TextPair {
                references: references.iter().map(|text| Some((*text).into())).collect(),
                prediction: (*prediction).into(),
            })
            .collect();
        aggregation.aggregate(&pairs).unwrap().to_f64()
    }

    #[test]
    fn encodes_pairs_of_lists() {
        let metric = bleu();
        let value = |target: Value| {
            let input =
                MetricInput::Generation { references: &[target], predictions: &["p".into(), "q".into()] };
            metric.compute(input, &Dict::new()).map(|values| values[0].to_value())
        };
        let list = |texts: &[&str]| Value::list(texts.iter().map(|text| Value::from(*text)));
        assert_eq!(value("t".into()), Ok(Value::tuple([list(&["t"]), list(&["p"])])));
        assert_eq!(value(list(&["t", "u"])), Ok(Value::tuple([list(&["t", "u"]), list(&["p"])])));
        assert!(value(Value::Int(3)).is_err());
    }

    #[test]
    fn large_statistics_do_not_overflow() {
        let total = |largest: u32, draws: &[u32]| {
            Statistics::new(vec![[1], [largest]], |totals| totals[0] as f64).score(draws)
        };
        assert_eq!(total(u32::MAX, &[1]), Ok(4_294_967_295.0));
        assert_eq!(total(u32::MAX, &[1, 1, 0]), Ok(8_589_934_591.0));
        assert_eq!(total(u32::MAX / 2, &[1, 1]), Ok(4_294_967_294.0));
        assert_eq!(total(0, &[1, 0]), Ok(1.0));
    }

    #[test]
    fn rejects_documents_without_reference() {
        let pair = TextPair { references: vec![None], prediction: "a".into() };
        for metric in [bleu(), chrf(), chrf_plus_plus(), ter()] {
            let missing = Err(MetricError::NoReference { document: 0 });
            assert_eq!(metric.aggregate(std::slice::from_ref(&pair)), missing);
            assert_eq!(metric.aggregate(&[]), Err(MetricError::NoValues));
        }
    }
}
