//! The scorer `choice_match`.

use std::sync::Arc;

use super::needs::Needs;
use super::scorer::Scorer;
use super::spec::MetricSpec;
use crate::registry::ScorerEntry;

/// The entry in the registry.
pub(super) fn entry() -> ScorerEntry {
    ScorerEntry::new("choice_match", |_| Ok(Arc::new(ChoiceMatchScorer)))
        .summary("Compares the unmodified answer with the target")
}

/// Compares the unmodified answer with the target, ignoring case and punctuation.
///
/// Despite its name, it does not look at options.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChoiceMatchScorer;

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
