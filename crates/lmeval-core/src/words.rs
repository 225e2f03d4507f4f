//! Wording helpers for messages.

/// A count with its noun: `1 answer`, `2 answers`.
///
/// ```
/// assert_eq!(lmeval_core::counted(1, "answer"), "1 answer");
/// assert_eq!(lmeval_core::counted(2, "answer"), "2 answers");
/// ```
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
