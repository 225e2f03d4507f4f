//! The filter `uppercase`.

use lmeval_pycompat::strings::upper;

use super::strings::StringFilter;
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("uppercase", |_, _| Ok(Box::new(UPPERCASE)))
        .options(OptionTable::NONE)
        .summary("Upper-cases every answer")
        .strict_in_v04()
}

/// Upper-cases every answer by the rules of Unicode.
///
/// It has no arguments. An answer that is not a string is an error.
pub const UPPERCASE: StringFilter = StringFilter {
    name: "uppercase",
    change: |text| {
        (!text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_lowercase())).then(|| upper(text))
    },
};

#[cfg(test)]
mod tests {
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;
    use lmeval_pycompat::Value;

    #[test]
    fn applies_special_casing() {
        let step = FilterSpec::named("uppercase");
        for (answer, filtered) in [("ŉ straße", "ʼN STRASSE"), ("", ""), ("12 .", "12 .")] {
            assert_eq!(filter_one(&step, answer).unwrap(), Value::str(filtered));
        }
    }

    #[test]
    fn rejects_other_types() {
        assert_eq!(
            filter_one(&FilterSpec::named("uppercase"), 1_i64).unwrap_err().to_string(),
            "The filter `uppercase` expects strings, but an answer to document 0 is `int`"
        );
    }
}
