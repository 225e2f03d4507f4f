//! One match out of all that a pattern finds.

use lmeval_pycompat::re::{Error, Flags, Match, Regex};

/// Compiles a pattern that is part of this program.
pub(super) fn own_pattern(pattern: &str) -> Regex {
    Regex::new(pattern, Flags::NONE).expect("tests compile every pattern of the program")
}

/// What `findall(...)[index]` is.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    if index == 0 {
        // The first match does not depend on later ones, which need not be looked for.
        return Ok(regex.search(text)?.map_or(Found::Nothing, |found| text_of(regex, &found)));
    }
    let matches = regex.find_iter(text)?;
    if matches.is_empty() {
        return Ok(Found::Nothing);
    }
    let position = if index < 0 { index.saturating_add_unsigned(matches.len() as u64) } else { index };
    let found = usize::try_from(position).ok().and_then(|position| matches.get(position));
    Ok(found.map_or(Found::OutOfRange { matches: matches.len() }, |found| text_of(regex, found)))
}

fn text_of<'t>(regex: &Regex, found: &Match<'t>) -> Found<'t> {
    match regex.groups() {
        0 => Found::Text(found.as_str()),
        1 => Found::Text(found.group(1).unwrap_or_default()),
        _ => found.groups().flatten().find(|text| !text.is_empty()).map_or(Found::NoText, Found::Text),
    }
}
