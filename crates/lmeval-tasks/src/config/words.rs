//! Lists and echoed values for messages, cut where they are long.

use std::borrow::Cow;

use lmeval_core::secrets;

/// The most names that a message lists.
const MOST_NAMES: usize = 20;
/// The most characters of a value that a message repeats.
const MOST_CHARACTERS: usize = 200;

/// The text, cut where it is too long for a message. Part of a secret would not be recognised, so the mask comes first.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    let text = secrets::mask(text);
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => text,
    }
}

/// Names with commas between them: the first ones, and how many more there are.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    joined(names, "")
}

/// As [`listed`], each name in backticks.
pub(crate) fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    joined(names, "`")
}

fn joined<S: AsRef<str>>(names: &[S], quote: &str) -> String {
    let shown =
        names.iter().take(MOST_NAMES).map(|name| format!("{quote}{}{quote}", shortened(name.as_ref())));
    let shown: Vec<String> = shown.collect();
    let shown = shown.join(", ");
    match names.len().checked_sub(MOST_NAMES) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_and_lists_are_cut() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"é".repeat(500)).into_owned();
        assert_eq!(long.chars().count(), MOST_CHARACTERS + 1);
        let names: Vec<String> = (0..25).map(|number| format!("n{number}")).collect();
        assert!(listed(&names).ends_with("n18, n19 and 5 more"));
        assert!(quoted(&names[..20]).ends_with("`n18`, `n19`"));
    }
}
