//! Selecting one match of a pattern.

use lmeval_pycompat::re::{Error, Flags, Match, Nth, Regex};

/// Compiles a built-in pattern.
pub(super) fn own_pattern(pattern: &str) -> Regex {
    Regex::new(pattern, Flags::NONE).expect("tests compile every built-in pattern")
}

/// The result of `findall(...)[index]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundItem<'t> {
    /// No match.
    Nothing,
    /// Matches, but too few for the index.
    OutOfRange {
        /// The number of matches.
        matches: usize,
    },
    /// The match, its only group, or its first non-empty group.
    Text(&'t str),
    /// The pattern has several groups, and all are empty.
    NoText,
}

/// Finds the match at an index; negative indices count from the end.
pub(super) fn find<'t>(regex: &Regex, text: &'t str, index: i64) -> Result<FoundItem<'t>, Error> {
    Ok(match regex.nth_match(text, index)? {
        Nth::Found(found) => text_of(regex, &found),
        Nth::OutOfRange { matches: 0 } => FoundItem::Nothing,
        Nth::OutOfRange { matches } => FoundItem::OutOfRange { matches },
    })
}

fn text_of<'t>(regex: &Regex, found: &Match<'t>) -> FoundItem<'t> {
    match regex.groups() {
        0 => FoundItem::Text(found.as_str()),
        1 => FoundItem::Text(found.group(1).unwrap_or_default()),
        _ => {
            found.groups().flatten().find(|text| !text.is_empty()).map_or(FoundItem::NoText, FoundItem::Text)
        }
    }
}
