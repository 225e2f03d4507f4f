//! The rules that differ on purpose between the 0.5 and the 0.4 line of the harness.

use std::fmt;
use std::str::FromStr;

/// The rules to follow where the 0.5 line and the 0.4 line deliberately differ.
///
/// Each rule is consulted in exactly one function. The default is the 0.5 line.
///
/// ```
/// use lmeval_core::Dialect;
///
/// assert_eq!("0.4".parse(), Ok(Dialect::V04));
/// assert_eq!(Dialect::default(), Dialect::V05);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The name that `--compat` accepts.
    pub name: &'static str,
    /// The target delimiter precedes every option, even if the context is empty or whitespace already separates the two.
    pub delimiter_always: bool,
    /// Changes that a task function makes to its document appear in records and hashes.
    pub functions_change_documents: bool,
    /// Column names are resolved against the columns of the evaluated split instead of the current document.
    pub columns_of_evaluated_split: bool,
    /// Elements of lists in the configuration are templates.
    pub list_elements_are_templates: bool,
    /// Options may be any Python iterable; each element is converted with `str`.
    pub options_of_any_kind: bool,
    /// The type of a target depends on how it was produced (only rendered templates become an index or a list), and
    /// it is resolved against the options at scoring time, so examples show it unresolved.
    pub targets_as_written: bool,
    /// The answer prefix of an example is rendered from the example instead of the evaluated document.
    pub example_prefix_of_example: bool,
    /// The sampler `first_n` skips the evaluated document if examples come from the same split.
    pub first_n_skips_evaluated: bool,
    /// `fewshot_config.fewshot_indices` restricts the pool of examples.
    pub fewshot_indices: bool,
    /// `fewshot_config.split: null` means no split, even if `fewshot_split` is set.
    pub null_split_means_none: bool,
    /// An empty `generation_kwargs` gets all defaults, not only the stop strings.
    pub fill_empty_generation_kwargs: bool,
    /// `repeats` applies to every output type.
    pub repeats_always: bool,
    /// Documents selected by index keep that index as their id; otherwise requests that are built by hand number them from
    /// 0. Runs log true ids in either case.
    pub chosen_documents_keep_ids: bool,
    /// The arguments of a rolling request begin with an empty context.
    pub rolling_context: bool,
    /// Multiple-choice tasks run on chat APIs, which cannot score the text of an option.
    pub choices_on_chat: bool,
    /// A document whose conversation is sent as JSON has no options to score.
    pub json_context_skips_options: bool,
    /// A conversation sent as JSON is hashed as a record of the string, not as the string itself.
    pub json_prompts_are_records: bool,
    /// Missing images and sounds are omitted from the arguments.
    pub omit_absent_media: bool,
    /// Strings in place of images and sounds stay strings, also if they are paths, `data:` addresses or Base64.
    pub media_strings_as_written: bool,
    /// `think_end_token` cuts the reasoning off before stop strings are applied, not after.
    pub thinking_ends_before_stops: bool,
    /// The model `dummy` draws log-likelihoods at random instead of deriving them from the index of the document.
    pub dummy_draws: bool,
    /// Results record the device that was asked for, not the one in use.
    pub device_as_requested: bool,
    /// Results files have only the keys of the reference: no checksums and no digests.
    pub plain_result_files: bool,
    /// Rules used by filters.
    pub filters: FilterRules,
    /// Rules used by scorers.
    pub scoring: ScoringRules,
}

/// The part of a [`Dialect`] that filters use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRules {
    /// `multi_choice_regex` tries long options before short ones, so that an option is not shadowed by one of its
    /// prefixes.
    pub longest_choice_first: bool,
    /// `format_span` rewrites label names only before a colon, not everywhere in the answer.
    pub labels_before_colon: bool,
    /// `map` and filters without arguments reject unknown arguments.
    pub refuse_unknown_arguments: bool,
    /// `take_first` returns the answer itself instead of a one-element list.
    pub take_first_unwraps: bool,
}

/// The part of a [`Dialect`] that scorers, groups and results use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoringRules {
    /// A pipeline without filters keeps only the first answer.
    pub default_filter_takes_first: bool,
    /// Values of repeated answers are averaged for metrics that use `pass@k` in the 0.5 line.
    pub repeats_are_averaged: bool,
    /// With a single option, accuracy compares the argmax (always that option); otherwise it is 1 if the option is
    /// the greedy continuation.
    pub single_option_by_argmax: bool,
    /// Corpus metrics treat a target that is not among the options as a separate label; otherwise they skip the
    /// document.
    pub unresolved_is_label: bool,
    /// The metrics of a multiple-choice task come in a fixed order instead of the order in the task file.
    pub fixed_choice_order: bool,
    /// Per-document values have the types of the 0.4 line: 0 and 1 as floats and, in records, the strings of corpus
    /// metrics without lists, Brier scores as the gold index with all probabilities, and no value for `bypass`.
    pub legacy_values: bool,
    /// The repeats of a request are no longer wrapped in a list once a filter has taken the first answer.
    pub taken_answers_are_bare: bool,
    /// The answer to a rolling request is a number instead of a pair.
    pub rolling_answers_are_numbers: bool,
    /// `process_results` gets one item per request, which is a list if several answers were kept.
    pub results_per_request: bool,
    /// `higher_is_better` is null for an unregistered metric that does not set it.
    pub unknown_direction_is_null: bool,
    /// Only aggregations listed by the 0.4 line get standard errors; corpus metrics use at most 100 bootstrap
    /// resamples.
    pub listed_stderrs_only: bool,
    /// The standard error of a group's unweighted mean is computed for that mean instead of being pooled.
    pub unweighted_group_stderr: bool,
    /// A task has the same result key whether or not it belongs to a group.
    pub bare_task_keys: bool,
}

impl Dialect {
    /// The 0.5 line, the default.
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
        null_split_means_none: false,
        fill_empty_generation_kwargs: true,
        repeats_always: false,
        chosen_documents_keep_ids: true,
        rolling_context: true,
        choices_on_chat: true,
        json_context_skips_options: true,
        json_prompts_are_records: true,
        omit_absent_media: true,
        media_strings_as_written: false,
        thinking_ends_before_stops: false,
        dummy_draws: false,
        device_as_requested: false,
        plain_result_files: false,
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
            legacy_values: false,
            taken_answers_are_bare: false,
            rolling_answers_are_numbers: false,
            results_per_request: false,
            unknown_direction_is_null: false,
            listed_stderrs_only: false,
            unweighted_group_stderr: false,
            bare_task_keys: false,
        },
    };

    /// The 0.4 line, as of release 0.4.13.
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
        null_split_means_none: true,
        fill_empty_generation_kwargs: false,
        repeats_always: true,
        chosen_documents_keep_ids: false,
        rolling_context: false,
        choices_on_chat: false,
        json_context_skips_options: false,
        json_prompts_are_records: false,
        omit_absent_media: false,
        media_strings_as_written: true,
        thinking_ends_before_stops: true,
        dummy_draws: true,
        device_as_requested: true,
        plain_result_files: true,
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
            legacy_values: true,
            taken_answers_are_bare: true,
            rolling_answers_are_numbers: true,
            results_per_request: true,
            unknown_direction_is_null: true,
            listed_stderrs_only: true,
            unweighted_group_stderr: true,
            bare_task_keys: true,
        },
    };

    /// All dialects, default first.
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

/// The error of an unknown dialect name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a dialect; use `0.5` or `0.4`")]
pub struct UnknownDialect(pub String);
