//! One match out of all that a pattern finds.

use lmeval_pycompat::re::{Error, Flags, Match, Nth, Regex};

/// Compiles a pattern that is part of this program.
pub(super) fn own_pattern(pattern: &str) -> Regex {
    Regex::new(pattern, Flags::NONE).expect("tests compile every pattern of the program")
}

/// What `findall(...)[index]` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<'t> {
    /// There is no match.
    Nothing,
    /// There are matches, but not as many.
    OutOfRange {
        /// The number of matches.
        matches: usize,
    },
    /// The text of the match, of its only group, or of its first group that is not empty.
    Text(&'t str),
    /// The pattern has several groups, and all are empty.
    NoText,
}

/// Looks for the match of a number; negative numbers count from the last match.
pub(super) fn find<'t>(regex: &Regex, text: &'t str, index: i64) -> Result<Found<'t>, Error> {
    Ok(match regex.nth_match(text, index)? {
        Nth::Found(found) => text_of(regex, &found),
        Nth::OutOfRange { matches: 0 } => Found::Nothing,
        Nth::OutOfRange { matches } => Found::OutOfRange { matches },
    })
}

fn text_of<'t>(regex: &Regex, found: &Match<'t>) -> Found<'t> {
    match regex.groups() {
        0 => Found::Text(found.as_str()),
        1 => Found::Text(found.group(1).unwrap_or_default()),
        _ => found.groups().flatten().find(|text| !text.is_empty()).map_or(Found::NoText, Found::Text),
    }
}
