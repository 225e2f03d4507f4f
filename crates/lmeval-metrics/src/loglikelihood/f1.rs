//! The metric `f1`.

use std::sync::Arc;

use lmeval_pycompat::Value;

use super::CHOICE;
use crate::aggregation::{Aggregation, F1};
use crate::error::MetricError;
use crate::item::LabelPair;
use crate::metric::{CorpusMetric, MetricInput};
use crate::output_type::OutputType;
use crate::vector::argmax;

/// `f1`: F1 of the option with index 1; a document's value is its target and the most likely option.
#[derive(Clone, Copy, Debug, Default)]
pub struct F1OfChoices;

impl CorpusMetric for F1OfChoices {
    type Item = LabelPair;

    fn name(&self) -> &'static str {
        "f1"
    }

    fn output_types(&self) -> &'static [OutputType] {
        CHOICE
    }

    fn value(&self, input: MetricInput<'_>) -> Result<LabelPair, MetricError> {
        let (reference, results) = input.likelihood()?;
        Ok(LabelPair { gold: reference.clone(), prediction: Value::Int(argmax(&results.lls)? as i64) })
    }

    fn aggregation(&self) -> Arc<dyn Aggregation<LabelPair>> {
        Arc::new(F1::default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use crate::metric::Metric;

    #[test]
    fn labels_are_indices() {
        let value = value(&Metric::from_corpus(F1OfChoices), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Int(2), Value::Int(1)]));
    }
}
