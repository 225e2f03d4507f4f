//! Where the two lines of the harness filter differently.

use crate::dialect::Dialect;

/// The rules of filters in which the dialects differ.
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

impl FilterRules {
    /// The 0.5 line.
    pub const V05: Self = Self {
        longest_choice_first: false,
        labels_before_colon: false,
        refuse_unknown_arguments: false,
        take_first_unwraps: false,
    };

    /// The 0.4 line, as release 0.4.13 has it.
    pub const V04: Self = Self {
        longest_choice_first: true,
        labels_before_colon: true,
        refuse_unknown_arguments: true,
        take_first_unwraps: true,
    };

    /// The rules of a dialect.
    pub fn of(dialect: &Dialect) -> Self {
        if *dialect == Dialect::V04 { Self::V04 } else { Self::V05 }
    }
}

impl Default for FilterRules {
    fn default() -> Self {
        Self::V05
    }
}
