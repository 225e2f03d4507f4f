//! The scorer `first_token`.

use super::needs::Needs;
use super::scorer::Scorer;
use super::spec::MetricSpec;
use crate::filters::FilterSpec;

/// Compares the stripped answer with the target, without regard to case and punctuation.
///
/// Nothing is cut to a token, whatever the name says.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstTokenScorer;

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
