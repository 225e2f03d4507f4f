//! The filter `map`.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use super::extract::Extract;
use super::sequence::is_hashable;
use super::{Arguments, FilterError};
use crate::registry::{FilterEntry, OptionEntry, OptionKind, OptionTable};
use lmeval_core::DocId;

const OPTIONS: &[OptionEntry] = &[
    OptionEntry::optional("mapping_dict", OptionKind::Mapping, "{}"),
    OptionEntry::optional("default_value", OptionKind::Any, "None"),
];

/// The entry in the registry.
pub(super) fn entry() -> FilterEntry {
    FilterEntry::new("map", |arguments, _| Ok(Box::new(MapFilter::from_arguments(arguments)?)))
        .options(OptionTable::lenient(OPTIONS))
        .summary("Looks up every answer in a dictionary")
        .strict_in_v04()
}

/// Looks up every answer in a dictionary.
///
/// | argument | default | |
/// |---|---|---|
/// | `mapping_dict` | `{}` | the replacement of each answer; `null` means empty |
/// | `default_value` | `null` | the replacement of answers that are not in the dictionary |
///
/// Keys are compared as in Python: the string `"1"` differs from the number `1`, and `1` equals `true`. Note that
/// YAML reads `Yes:` as `true`. Values may be of any type. Answers that Python cannot hash, such as lists, are an
/// error.
#[derive(Clone, Debug)]
pub(crate) struct MapFilter {
    mapping: Arc<Dict>,
    default: Value,
}

impl MapFilter {
    /// Creates the filter from a step's arguments.
    pub(crate) fn from_arguments(arguments: &Arguments<'_>) -> Result<Self, FilterError> {
        let mapping = match arguments.get("mapping_dict") {
            None | Some(Value::None) => Arc::default(),
            Some(Value::Dict(mapping)) => Arc::clone(mapping),
            Some(other) => return Err(arguments.wrong("mapping_dict", OptionKind::Mapping, other)),
        };
        Ok(Self { mapping, default: arguments.value_or("default_value", Value::None) })
    }

    fn look_up(&self, answer: &Value) -> Option<&Value> {
        match answer {
            // Python finds NaN only by identity, which an answer never shares.
            Value::Float(number) if number.is_nan() => None,
            _ => self.mapping.get(answer),
        }
    }
}

impl Extract for MapFilter {
    fn extract(&self, document: DocId, answer: &mut Value) -> Result<bool, FilterError> {
        if !is_hashable(answer) {
            return Err(FilterError::WrongResponse {
                filter: "map".to_owned(),
                document,
                expected: "hashable answers",
                found: answer.type_name(),
            });
        }
        let value = self.look_up(answer);
        let fell_back = value.is_none();
        *answer = value.unwrap_or(&self.default).clone();
        Ok(fell_back)
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
    fn replaces_answers() {
        let kwargs = mapping().kwargs;
        let filter = MapFilter::from_arguments(&Arguments::new("map", &kwargs)).unwrap();
        let filtered = apply(&filter, texts(&[&["A", "B", "C"], &["1"]])).unwrap();
        assert_eq!(filtered.responses[0], [Value::Int(1), Value::str("two"), Value::str("d")]);
        assert_eq!(filtered.responses[1], [Value::str("d")]);
        assert_eq!(filtered.fallbacks, [[2], [0]]);
    }

    #[test]
    fn compares_keys_as_python_does() {
        assert_eq!(filter_one(&mapping(), true).unwrap(), Value::list([]));
        assert_eq!(filter_one(&mapping(), f64::NAN).unwrap(), Value::str("d"));
        let error = filter_one(&mapping(), Value::list([])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The filter `map` expects hashable answers, but an answer to document 0 is `list`"
        );
    }

    #[test]
    fn null_is_an_empty_dictionary() {
        let step = FilterSpec::named("map").with("mapping_dict", Value::None);
        assert_eq!(filter_one(&step, "a").unwrap(), Value::None);
        assert_eq!(filter_one(&FilterSpec::named("map"), "a").unwrap(), Value::None);
    }
}
