//! Words of messages.

/// A number with its noun: `1 answer`, `2 answers`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Which of two words goes with a number.
pub(crate) fn for_count<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}
