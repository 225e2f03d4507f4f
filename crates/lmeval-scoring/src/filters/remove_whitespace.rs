//! The filter `remove_whitespace`.

use lmeval_pycompat::strings::strip;

use super::strings::StringFilter;
use crate::registry::{FilterEntry, OptionTable};

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("remove_whitespace", |_, _| Ok(Box::new(REMOVE_WHITESPACE)))
        .options(OptionTable::NONE)
        .summary("Strips whitespace at both ends")
}

/// Strips whitespace, as defined by Python's `str.strip`, at both ends of every answer.
///
/// It has no arguments. An answer that is not a string is an error.
pub(crate) const REMOVE_WHITESPACE: StringFilter = StringFilter {
    name: "remove_whitespace",
    change: |text| {
        let stripped = strip(text);
        (stripped.len() < text.len()).then(|| stripped.to_owned())
    },
};

#[cfg(test)]
mod tests {
    use crate::filters::FilterSpec;
    use crate::filters::testing::filter_one;
    use lmeval_pycompat::Value;

    #[test]
    fn strips_python_whitespace() {
        let step = FilterSpec::named("remove_whitespace");
        for (answer, filtered) in [
            ("  a b\n\t", "a b"),
            ("\u{a0}x\u{3000}\u{200b}", "x\u{3000}\u{200b}"),
            ("\u{1c}\u{1d}x\u{1f}\u{85}", "x"),
            (" \n", ""),
        ] {
            assert_eq!(filter_one(&step, answer).unwrap(), Value::str(filtered));
        }
        assert!(filter_one(&step, Value::None).is_err());
    }
}
