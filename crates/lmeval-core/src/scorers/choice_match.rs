//! The scorer `choice_match`.

use super::needs::Needs;
use super::scorer::Scorer;
use super::spec::MetricSpec;

/// Compares the answer as it is with the target, without regard to case and punctuation.
///
/// It does not look at options, whatever the name says.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChoiceMatchScorer;

impl Scorer for ChoiceMatchScorer {
    fn name(&self) -> &'static str {
        "choice_match"
    }

    fn scores_by_metrics(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        Some(vec![MetricSpec::normalised_exact_match()])
    }
}
