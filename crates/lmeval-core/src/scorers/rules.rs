//! The rules of scoring in which the two lines of the harness differ on purpose.

use crate::dialect::Dialect;

/// Which rules of scoring hold where the 0.5 line and the 0.4 line both work and differ.
///
/// Each rule is asked in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoringRules {
    /// A pipeline without filters keeps the first answer only, not all of them.
    pub default_filter_takes_first: bool,
    /// The values of several answers are averaged where a metric of the 0.5 line has `pass@k`.
    pub repeats_are_averaged: bool,
    /// The accuracy of a single option is that of the most likely one, not whether the option is the greedy
    /// continuation.
    pub single_option_by_argmax: bool,
    /// A target that is none of the options is a label of its own to metrics over the whole corpus; otherwise they leave
    /// the document out.
    pub unresolved_is_label: bool,
    /// The metrics of a multiple-choice task come in a fixed order, not in that of the task.
    pub fixed_choice_order: bool,
    /// Values of single documents are those of the 0.4 line: 0 and 1 as floats and, in records, texts of corpus metrics
    /// without lists, Brier scores as the gold index with all probabilities, and nothing for `bypass`.
    pub older_values: bool,
    /// What follows the repeats of one request loses its list once the first answer was taken.
    pub taken_answers_are_bare: bool,
    /// A rolling request is answered by a number, not by a pair.
    pub rolling_answers_are_numbers: bool,
    /// `process_results` gets one item per request, which is a list where several answers were kept.
    pub results_per_request: bool,
    /// Whether higher is better is unknown for a metric that is not registered and does not say.
    pub unknown_direction_is_null: bool,
    /// Only the aggregations that the 0.4 line lists have standard errors, those of corpus texts from at most 100 draws.
    pub listed_stderrs_only: bool,
    /// The standard error of a group's plain mean is that of a plain mean, not the pooled one.
    pub unweighted_group_stderr: bool,
    /// A task has the same key in results whether or not it is a member of a group.
    pub bare_task_keys: bool,
}

impl ScoringRules {
    /// The 0.5 line.
    pub const V05: Self = Self {
        default_filter_takes_first: false,
        repeats_are_averaged: false,
        single_option_by_argmax: false,
        unresolved_is_label: false,
        fixed_choice_order: false,
        older_values: false,
        taken_answers_are_bare: false,
        rolling_answers_are_numbers: false,
        results_per_request: false,
        unknown_direction_is_null: false,
        listed_stderrs_only: false,
        unweighted_group_stderr: false,
        bare_task_keys: false,
    };

    /// The 0.4 line, as release 0.4.13 has it.
    pub const V04: Self = Self {
        default_filter_takes_first: true,
        repeats_are_averaged: true,
        single_option_by_argmax: true,
        unresolved_is_label: true,
        fixed_choice_order: true,
        older_values: true,
        taken_answers_are_bare: true,
        rolling_answers_are_numbers: true,
        results_per_request: true,
        unknown_direction_is_null: true,
        listed_stderrs_only: true,
        unweighted_group_stderr: true,
        bare_task_keys: true,
    };

    /// The rules of a dialect.
    pub fn of(dialect: &Dialect) -> &'static Self {
        if *dialect == Dialect::V04 { &Self::V04 } else { &Self::V05 }
    }
}
