//! `map`.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::parallel::count_fallbacks;
use super::sequence::is_hashable;
use super::{Arguments, Filter, FilterDocs, FilterError, Filtered, Responses};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("mapping_dict", OptionKind::Mapping, "{}"),
    OptionEntry::optional("default_value", OptionKind::Any, "None"),
];

/// The entry of the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("map", |arguments, _| Ok(Box::new(MapFilter::from_arguments(arguments)?)))
        .options(OptionTable::lenient(OPTIONS))
        .summary("Looks every answer up in a dictionary")
        .strict_before()
}

/// Looks every answer up in a dictionary.
///
/// | argument | default | |
/// |---|---|---|
/// | `mapping_dict` | `{}` | what becomes of each answer; `null` is an empty one |
/// | `default_value` | `null` | what becomes of answers that are not in the dictionary |
///
/// Keys are equal as in Python: the text `"1"` is not the number `1`, and `1` is `true`. Mind that YAML reads `Yes:` as
/// `true`. Values may be of any type. Answers that Python cannot hash, such as lists, are an error.
#[derive(Clone, Debug)]
pub struct MapFilter {
    mapping: Arc<Dict>,
    default: Value,
}

impl MapFilter {
    /// The filter with the arguments of a step.
    pub fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        let mapping = match arguments.get("mapping_dict") {
            None | Some(Value::None) => Arc::default(),
            Some(Value::Dict(mapping)) => Arc::clone(mapping),
            Some(other) => return Err(arguments.wrong("mapping_dict", OptionKind::Mapping, other)),
        };
        Ok(Self { mapping, default: arguments.value_or("default_value", Value::None) })
    }

    fn look_up(&self, answer: &Value) -> Option<&Value> {
        match answer {
            // Python finds a value that is not a number only by identity, which an answer never shares.
            Value::Float(number) if number.is_nan() => None,
            _ => self.mapping.get(answer),
        }
    }
}

impl Filter for MapFilter {
    fn apply(&self, mut responses: Responses, docs: &FilterDocs<'_>) -> Result<Filtered, FilterError> {
        let fallbacks = count_fallbacks(&mut responses, |request, answer| {
            if !is_hashable(answer) {
                return Err(FilterError::WrongResponse {
                    filter: "map".to_owned(),
                    document: docs.id(request),
                    expected: "answers that can be keys",
                    found: answer.type_name(),
                });
            }
            let value = self.look_up(answer);
            let fell_back = value.is_none();
            *answer = value.unwrap_or(&self.default).clone();
            Ok(fell_back)
        })?;
        Ok(Filtered { responses, bare: false, fallbacks })
    }

    fn needs_documents(&self) -> bool {
        false
    }

    fn works_apart(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::FilterSpec;
    use crate::filters::testing::{apply, filter_one, texts};

    fn mapping() -> FilterSpec {
        let mapping: Dict = [
            (Value::str("A"), Value::Int(1)),
            (Value::str("B"), Value::str("two")),
            (Value::Int(1), Value::list([])),
        ]
        .into_iter()
        .collect();
        FilterSpec::named("map").with("mapping_dict", mapping).with("default_value", "d")
    }

    #[test]
    fn answers_are_looked_up() {
        let kwargs = mapping().kwargs;
        let filter = MapFilter::from_arguments(&Arguments::new("map", &kwargs)).unwrap();
        let filtered = apply(&filter, texts(&[&["A", "B", "C"], &["1"]])).unwrap();
        assert_eq!(filtered.responses[0], [Value::Int(1), Value::str("two"), Value::str("d")]);
        assert_eq!(filtered.responses[1], [Value::str("d")]);
        assert_eq!(filtered.fallbacks, [1, 1]);
    }

    #[test]
    fn keys_are_equal_as_in_python() {
        assert_eq!(filter_one(&mapping(), true).unwrap(), Value::list([]));
        assert_eq!(filter_one(&mapping(), f64::NAN).unwrap(), Value::str("d"));
        let error = filter_one(&mapping(), Value::list([])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `map` needs answers that can be keys, and an answer to document 0 is `list`"
        );
    }

    #[test]
    fn nothing_is_an_empty_dictionary() {
        let step = FilterSpec::named("map").with("mapping_dict", Value::None);
        assert_eq!(filter_one(&step, "a").unwrap(), Value::None);
        assert_eq!(filter_one(&FilterSpec::named("map"), "a").unwrap(), Value::None);
    }
}
