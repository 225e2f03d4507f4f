//! The scorer of generated answers.

use lmeval_metrics::MetricInput;
use lmeval_pycompat::Value;

use super::error::ScoreError;
use super::input::{ScoringInput, as_text};
use super::scored::Scores;
use super::scorer::Scorer;

/// Compares generated answers with the target by the metrics of the pipeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct GenScorer;

impl Scorer for GenScorer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        input.generation_scores()
    }
}

impl ScoringInput<'_> {
    /// The values that the metrics of the pipeline give for generated answers.
    pub fn generation_scores(&self) -> Result<Scores<Vec<Value>>, ScoreError> {
        let reference = as_text(self.reference()?);
        let references = std::slice::from_ref(&*reference);
        let input = MetricInput::Generation { references, predictions: self.predictions()? };
        self.metrics.compute(self, input)
    }
}
