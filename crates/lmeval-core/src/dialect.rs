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
    /// Absent images and sounds are left out of the arguments.
    pub omit_absent_media: bool,
}

impl Dialect {
    /// The 0.5 line.
    pub const V05: Self = Self {
        name: "0.5",
        delimiter_always: false,
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
        omit_absent_media: true,
    };

    /// The 0.4 line, as release 0.4.13 has it.
    pub const V04: Self = Self {
        name: "0.4",
        delimiter_always: true,
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
        omit_absent_media: false,
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
