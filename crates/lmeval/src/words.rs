//! Words of messages.

pub(crate) use lmeval_core::counted;

/// Which of two words goes with a number.
pub(crate) fn for_count<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}
