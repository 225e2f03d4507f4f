//! The rules in which the two lines of the harness differ on purpose.

use std::fmt;
use std::str::FromStr;

/// Which rules hold where the 0.5 line and the 0.4 line both work and differ.
///
/// Each rule is asked in one place. The default is the 0.5 line.
///
/// ```
/// use lmeval_core::Dialect;
///
/// assert_eq!("0.4".parse(), Ok(Dialect::V04));
/// assert_eq!(Dialect::default(), Dialect::V05);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The name, as `--compat` takes it.
    pub name: &'static str,
    /// The target delimiter stands before every option, also where the joint has a blank or the context is empty.
    pub delimiter_always: bool,
    /// What a function of the task changes in its document shows in records and hashes.
    pub functions_change_documents: bool,
    /// Names of columns are looked up in the columns of the evaluated documents, not in the document at hand.
    pub columns_of_evaluated_split: bool,
    /// Elements of lists in the configuration are templates.
    pub list_elements_are_templates: bool,
    /// Options may be whatever Python can iterate over, each one by its text.
    pub options_of_any_kind: bool,
    /// A target is typed by how it was made (only rendered text is ever an index or a list) and is looked up among
    /// the options when it is scored, so examples print it as it is.
    pub targets_as_written: bool,
    /// The answer prefix of an example is made of the example, not of the evaluated document.
    pub example_prefix_of_example: bool,
    /// The sampler `first_n` skips the evaluated document, where examples come from its split.
    pub first_n_skips_evaluated: bool,
    /// `fewshot_config.fewshot_indices` reduces the pool of examples.
    pub fewshot_indices: bool,
    /// `fewshot_config.split: null` means no split, whatever `fewshot_split` says.
    pub null_split_counts: bool,
    /// An empty `generation_kwargs` is filled with all defaults, not only the stop text.
    pub fill_empty_generation_kwargs: bool,
    /// `repeats` counts for every output type.
    pub repeats_always: bool,
    /// Documents that are chosen by number keep it; otherwise they are numbered from 0.
    pub chosen_documents_keep_ids: bool,
    /// The arguments of a rolling request begin with an empty context.
    pub rolling_context: bool,
    /// A document whose conversation is sent as JSON has no options to score.
    pub json_context_skips_options: bool,
    /// A conversation that is sent as JSON is hashed as a record of its text, not as the text.
    pub json_prompts_are_records: bool,
    /// Absent images and sounds are left out of the arguments.
    pub omit_absent_media: bool,
    /// The rules of filters.
    pub filters: FilterRules,
    /// The rules of scoring.
    pub scoring: ScoringRules,
}

/// The part of a [`Dialect`] that filters ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRules {
    /// `multi_choice_regex` tries long options before short ones, so that an option that begins another one does not
    /// hide it.
    pub longest_choice_first: bool,
    /// `format_span` rewrites names of labels before a colon only, not everywhere in the text.
    pub labels_before_colon: bool,
    /// Filters without arguments, and `map`, refuse unknown ones.
    pub refuse_unknown_arguments: bool,
    /// `take_first` gives the answer itself, not a list of one.
    pub take_first_unwraps: bool,
}

/// The part of a [`Dialect`] that scorers, groups and results ask.
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

impl Dialect {
    /// The 0.5 line.
    pub const V05: Self = Self {
        name: "0.5",
        delimiter_always: false,
        functions_change_documents: false,
        columns_of_evaluated_split: false,
        list_elements_are_templates: true,
        options_of_any_kind: false,
        targets_as_written: false,
        example_prefix_of_example: false,
        first_n_skips_evaluated: false,
        fewshot_indices: true,
        null_split_counts: false,
        fill_empty_generation_kwargs: true,
        repeats_always: false,
        chosen_documents_keep_ids: true,
        rolling_context: true,
        json_context_skips_options: true,
        json_prompts_are_records: true,
        omit_absent_media: true,
        filters: FilterRules {
            longest_choice_first: false,
            labels_before_colon: false,
            refuse_unknown_arguments: false,
            take_first_unwraps: false,
        },
        scoring: ScoringRules {
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
        },
    };

    /// The 0.4 line, as release 0.4.13 has it.
    pub const V04: Self = Self {
        name: "0.4",
        delimiter_always: true,
        functions_change_documents: true,
        columns_of_evaluated_split: true,
        list_elements_are_templates: false,
        options_of_any_kind: true,
        targets_as_written: true,
        example_prefix_of_example: true,
        first_n_skips_evaluated: true,
        fewshot_indices: false,
        null_split_counts: true,
        fill_empty_generation_kwargs: false,
        repeats_always: true,
        chosen_documents_keep_ids: false,
        rolling_context: false,
        json_context_skips_options: false,
        json_prompts_are_records: false,
        omit_absent_media: false,
        filters: FilterRules {
            longest_choice_first: true,
            labels_before_colon: true,
            refuse_unknown_arguments: true,
            take_first_unwraps: true,
        },
        scoring: ScoringRules {
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
        },
    };

    /// All dialects, the default first.
    pub const ALL: [Self; 2] = [Self::V05, Self::V04];
}

impl Default for Dialect {
    fn default() -> Self {
        Self::V05
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.name == name)
            .ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

/// A name that is no dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a dialect; there are `0.5` and `0.4`")]
pub struct UnknownDialect(pub String);
