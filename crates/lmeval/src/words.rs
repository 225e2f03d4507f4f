//! Singular and plural forms in messages.

pub(crate) use lmeval_core::counted;

/// Picks the singular or the plural form.
pub(crate) fn for_count<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}
