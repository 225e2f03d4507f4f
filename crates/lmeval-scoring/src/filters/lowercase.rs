//! The filter `lowercase`.

use lmeval_pycompat::strings::lower;

use super::strings::StringFilter;
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("lowercase", |_, _| Ok(Box::new(LOWERCASE)))
        .options(OptionTable::NONE)
        .summary("Lower-cases every answer")
        .strict_in_v04()
}

/// Lower-cases every answer by the rules of Unicode.
///
/// It has no arguments. An answer that is not a string is an error.
pub(crate) const LOWERCASE: StringFilter = StringFilter {
    name: "lowercase",
    change: |text| {
        (!text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_uppercase())).then(|| lower(text))
    },
};

#[cfg(test)]
mod tests {
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;
    use lmeval_pycompat::Value;

    #[test]
    fn applies_special_casing() {
        let step = FilterSpec::named("lowercase");
        for (answer, filtered) in [("ΑΣ İ", "ας i̇"), ("", ""), ("12 .", "12 .")] {
            assert_eq!(filter_one(&step, answer).unwrap(), Value::str(filtered));
        }
    }

    #[test]
    fn rejects_other_types() {
        assert_eq!(
            filter_one(&FilterSpec::named("lowercase"), 1_i64).unwrap_err().to_string(),
            "The filter `lowercase` expects strings, but an answer to document 0 is `int`"
        );
    }
}
