//! The scorer `first_token`.

use std::sync::Arc;

use super::needs::Needs;
use super::scorer::Scorer;
use super::spec::MetricSpec;
use crate::filters::FilterSpec;
use crate::registry::ScorerEntry;

/// The entry in the registry.
pub(super) fn entry() -> ScorerEntry {
    ScorerEntry::new("first_token", |_| Ok(Arc::new(FirstTokenScorer)))
        .summary("Compares the stripped answer with the target")
}

/// Compares the stripped answer with the target, ignoring case and punctuation.
///
/// Despite its name, it does not truncate the answer to a token.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstTokenScorer;

impl Scorer for FirstTokenScorer {
    fn name(&self) -> &'static str {
        "first_token"
    }

    fn scores_by_metrics(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn default_filters(&self) -> Option<Vec<FilterSpec>> {
        Some(vec![FilterSpec::named("remove_whitespace")])
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        Some(vec![MetricSpec::normalised_exact_match()])
    }
}
