//! The scorer `regex`.

use std::sync::Arc;

use super::needs::Needs;
use super::scorer::Scorer;
use super::spec::MetricSpec;
use crate::filters::FilterSpec;
use crate::registry::ScorerEntry;

/// The entry in the registry.
pub(super) fn entry() -> ScorerEntry {
    ScorerEntry::new("regex", |_| Ok(Arc::new(RegexExtractionScorer)))
        .summary("Compares the part of the answer that a pattern matches with the target")
}

/// Compares the part of the answer that a pattern matches with the target, ignoring case and punctuation.
///
/// The pattern is the default of the filter `regex`; set another one in `filter_list`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegexExtractionScorer;

impl Scorer for RegexExtractionScorer {
    fn name(&self) -> &'static str {
        "regex"
    }

    fn scores_by_metrics(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    fn default_filters(&self) -> Option<Vec<FilterSpec>> {
        Some(vec![FilterSpec::named("regex")])
    }

    fn default_metrics(&self) -> Option<Vec<MetricSpec>> {
        Some(vec![MetricSpec::normalised_exact_match()])
    }
}
