//! Reductions: from the values of one document's repeats to one value.

use std::borrow::Cow;

use super::table::Entry;

/// Knowledge about one reduction.
///
/// A name that ends in `k` after `@` or `^` also stands for every name with a number in that place: `pass@k`
/// answers to `pass@5`. The spelling `pass_at_k` is understood too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReductionEntry {
    /// The name used in `reduction:`.
    pub name: Cow<'static, str>,
    /// Whether the result is several values, named after their k.
    pub names_its_values: bool,
    /// One line for listings.
    pub summary: Cow<'static, str>,
}

impl ReductionEntry {
    /// An entry.
    pub const fn new(name: &'static str, names_its_values: bool, summary: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), names_its_values, summary: Cow::Borrowed(summary) }
    }
}

impl Entry for ReductionEntry {
    const KIND: &'static str = "reduction";

    fn name(&self) -> &str {
        &self.name
    }

    fn answers_to(&self, name: &str) -> bool {
        let name = name.replace("_at_", "@");
        self.name == name
            || self.name.strip_suffix('k').is_some_and(|stem| {
                stem.ends_with(['@', '^']) && name.starts_with(stem) && reduction_count(&name).is_some()
            })
    }
}

/// The number of repeats that a name such as `pass@5` fixes.
///
/// ```
/// use lmeval_core::registry::reduction_count;
///
/// assert_eq!(reduction_count("pass@5"), Some(5));
/// assert_eq!(reduction_count("pass@k"), None);
/// ```
pub fn reduction_count(name: &str) -> Option<usize> {
    let (_, digits) = name.rsplit_once("_at_").or_else(|| name.rsplit_once(['@', '^']))?;
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// The built-in reductions.
pub static REDUCTIONS: &[ReductionEntry] = &[
    ReductionEntry::new("take_first", false, "The value of the first repeat"),
    ReductionEntry::new("mean", false, "The mean over all repeats"),
    ReductionEntry::new("pass@k", true, "Chance that one of k repeats is right, estimated from all of them"),
    ReductionEntry::new("pass^k", true, "Chance that all of k repeats are right, estimated from all of them"),
    ReductionEntry::new("avg@k", true, "The mean over the first k repeats"),
    ReductionEntry::new("maj@k", true, "The most frequent value of the first k repeats"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn numbers_stand_for_k() {
        let reductions = Registry::new(REDUCTIONS);
        for name in ["pass@k", "pass@1", "pass^10", "avg@4", "maj@64"] {
            assert!(reductions.get(name).is_some(), "{name}");
        }
        for name in ["pass@", "pass@0", "pass@x", "pass@-1", "pass@01", "mean@2", "pass", "@k", "pass_at_"] {
            assert!(reductions.get(name).is_none(), "{name}");
        }
        assert_eq!(reductions.get("pass_at_k").map(Entry::name), Some("pass@k"));
        assert_eq!(reduction_count("pass_at_3"), Some(3));
        assert_eq!(reductions.find("pass@kk").unwrap_err().nearest[0], "pass@k");
        assert_eq!(reduction_count("pass@99999999999999999999999"), None);
    }
}
