//! Scorers: ready-made pairs of filters and metrics for generation tasks.

use std::borrow::Cow;

use super::options::OptionTable;
use super::table::Entry;
use crate::output_type::OutputType;

/// A metric that a scorer uses when the task names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorerMetric {
    /// The metric.
    pub metric: Cow<'static, str>,
    /// The aggregation.
    pub aggregation: Cow<'static, str>,
    /// Whether higher is better.
    pub higher_is_better: bool,
    /// Options that are switched on.
    pub switches: Cow<'static, [&'static str]>,
}

/// Knowledge about one scorer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScorerEntry {
    /// The name used in `scorer:`.
    pub name: Cow<'static, str>,
    /// The output types whose answers it can score.
    pub output_types: Cow<'static, [OutputType]>,
    /// Filters that are used when a pipeline has none.
    pub default_filters: Cow<'static, [&'static str]>,
    /// Metrics that are used when a pipeline has none.
    pub default_metrics: Cow<'static, [ScorerMetric]>,
    /// Keyword arguments under `kwargs`.
    pub options: OptionTable,
    /// One line for listings.
    pub summary: Cow<'static, str>,
}

impl ScorerEntry {
    const fn built_in(name: &'static str, filters: &'static [&'static str], summary: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            output_types: Cow::Borrowed(&[OutputType::GenerateUntil]),
            default_filters: Cow::Borrowed(filters),
            default_metrics: Cow::Borrowed(NORMALISED_EXACT_MATCH),
            options: OptionTable::NONE_ALLOWED,
            summary: Cow::Borrowed(summary),
        }
    }
}

impl Entry for ScorerEntry {
    const KIND: &'static str = "scorer";

    fn name(&self) -> &str {
        &self.name
    }
}

const NORMALISED_EXACT_MATCH: &[ScorerMetric] = &[ScorerMetric {
    metric: Cow::Borrowed("exact_match"),
    aggregation: Cow::Borrowed("mean"),
    higher_is_better: true,
    switches: Cow::Borrowed(&["ignore_case", "ignore_punctuation"]),
}];

/// The built-in scorers.
pub static SCORERS: &[ScorerEntry] = &[
    ScorerEntry::built_in(
        "first_token",
        &["remove_whitespace"],
        "Compares the stripped answer with the target",
    ),
    ScorerEntry::built_in("regex", &["regex"], "Compares what a pattern finds in the answer with the target"),
    ScorerEntry::built_in("choice_match", &[], "Compares the answer as it is with the target"),
];
