//! Phrases shared by messages.

pub(crate) use lmeval_core::counted;
use lmeval_tasks::prompt::Skipped;

/// Picks the singular or the plural form.
pub(crate) fn for_count<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// A string as one word for a shell.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_=.,/:+@%".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Why a document has no requests.
pub(crate) fn skip_reason(skipped: Skipped) -> &'static str {
    match skipped {
        Skipped::NoOptions => "it has no options",
        Skipped::NoTarget => "it has no target",
        Skipped::ContextWithoutOptions => "answer options cannot follow chat messages",
        Skipped::NoRequests => "the task class returned no requests for it",
        _ => "it has no requests",
    }
}
