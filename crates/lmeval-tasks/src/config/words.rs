//! Lists and values in messages, truncated if they are long.

use std::borrow::Cow;

use lmeval_core::secrets;

/// The maximum number of names that a message lists.
const MAX_NAMES: usize = 20;
/// The maximum number of characters that a message quotes.
const MAX_CHARACTERS: usize = 200;

/// Truncates a string for a message. Secrets are masked first, as a truncated secret would not be recognised.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    let text = secrets::mask(text);
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => text,
    }
}

/// Joins names with commas; a long list ends with how many more there are.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    joined(names, "")
}

/// As [`listed`], each name in backticks.
pub(crate) fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    joined(names, "`")
}

fn joined<S: AsRef<str>>(names: &[S], quote: &str) -> String {
    let shown =
        names.iter().take(MAX_NAMES).map(|name| format!("{quote}{}{quote}", shortened(name.as_ref())));
    let shown: Vec<String> = shown.collect();
    let shown = shown.join(", ");
    match names.len().checked_sub(MAX_NAMES) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_long_strings_and_lists() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"é".repeat(500)).into_owned();
        assert_eq!(long.chars().count(), MAX_CHARACTERS + 1);
        let names: Vec<String> = (0..25).map(|number| format!("n{number}")).collect();
        assert!(listed(&names).ends_with("n18, n19 and 5 more"));
        assert!(quoted(&names[..20]).ends_with("`n18`, `n19`"));
    }
}
