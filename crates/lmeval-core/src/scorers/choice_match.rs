//! The scorer `choice_match`.

use std::sync::Arc;

use super::needs::Needs;
use super::scorer::Scorer;
use super::spec::MetricSpec;
use crate::registry::ScorerEntry;

/// The entry in the registry.
pub(super) fn entry() -> ScorerEntry {
    ScorerEntry::new("choice_match", |_| Ok(Arc::new(ChoiceMatchScorer)))
        .summary("Compares the answer as it is with the target")
}

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
