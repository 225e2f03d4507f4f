//! The default scorer of generated answers.

use lmeval_metrics::MetricInput;
use lmeval_pycompat::Value;

use super::error::ScoreError;
use super::input::{ScoringInput, as_text};
use super::needs::Needs;
use super::scored::Scores;
use super::scorer::Scorer;

/// Compares generated answers with the target using the pipeline's metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct GenScorer;

impl Scorer for GenScorer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn scores_by_metrics(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn score(&self, input: &ScoringInput<'_>) -> Result<Scores<Vec<Value>>, ScoreError> {
        input.generation_scores()
    }
}

impl ScoringInput<'_> {
    /// Applies the pipeline's metrics to generated answers.
    pub fn generation_scores(&self) -> Result<Scores<Vec<Value>>, ScoreError> {
        self.with_generation(|input| self.metrics.compute(self, input))?
    }

    /// Calls a function with the inputs of generation metrics.
    pub(super) fn with_generation<T>(
        &self,
        call: impl FnOnce(MetricInput<'_>) -> T,
    ) -> Result<T, ScoreError> {
        let reference = as_text(self.reference()?);
        let references = std::slice::from_ref(&*reference);
        Ok(call(MetricInput::Generation { references, predictions: self.predictions()? }))
    }
}
