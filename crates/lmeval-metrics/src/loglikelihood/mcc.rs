//! The metric `mcc`.

use std::sync::Arc;

use lmeval_pycompat::Value;

use super::CHOICE;
use crate::aggregation::{Aggregation, Matthews};
use crate::error::MetricError;
use crate::item::LabelPair;
use crate::metric::{CorpusMetric, MetricInput};
use crate::output_type::OutputType;
use crate::vector::argmax;

/// `mcc`: Matthews correlation coefficient; a document's value is its target and the most likely option.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatthewsOfChoices;

impl CorpusMetric for MatthewsOfChoices {
    type Item = LabelPair;

    fn name(&self) -> &'static str {
        "mcc"
    }

    fn output_types(&self) -> &'static [OutputType] {
        CHOICE
    }

    fn value(&self, input: MetricInput<'_>) -> Result<LabelPair, MetricError> {
        let (reference, results) = input.likelihood()?;
        Ok(LabelPair { gold: reference.clone(), prediction: Value::Int(argmax(&results.lls)? as i64) })
    }

    fn aggregation(&self) -> Arc<dyn Aggregation<LabelPair>> {
        Arc::new(Matthews)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{three_options, value};
    use super::*;
    use crate::metric::Metric;

    #[test]
    fn labels_are_indices() {
        let value = value(&Metric::from_corpus(MatthewsOfChoices), &three_options(), 2).unwrap();
        assert_eq!(value, Value::tuple([Value::Int(2), Value::Int(1)]));
    }
}
