//! Parsing of `metric_list` entries.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Value};

use crate::scorers::{MetricSpec, Reference, Setting};

/// The error of an invalid `metric_list` entry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricConfigError {
    /// The entry has the wrong shape.
    #[error("An entry of `metric_list` must be {expected}, not {found}")]
    Entry {
        /// The expected shape.
        expected: &'static str,
        /// The Python type name of the entry, or the part it lacks.
        found: String,
    },
}

impl MetricSpec {
    /// Reads an entry of `metric_list`: `metric` with optional `aggregation`, `reduction`, `higher_is_better` and
    /// options. Options may also be listed under `kwargs`, which takes precedence.
    pub fn from_value(entry: &Value) -> Result<Self, MetricConfigError> {
        let wrong = |expected, value: Option<&Value>| MetricConfigError::Entry {
            expected,
            found: value
                .map_or_else(|| "a dict without it".to_owned(), |value| format!("`{}`", value.type_name())),
        };
        let Value::Dict(given) = entry else {
            return Err(wrong("a dict with `metric`", Some(entry)));
        };
        let metric = match given.get_str("metric") {
            Some(value) => reference(value)
                .ok_or_else(|| wrong("a dict whose `metric` is a name or a function", Some(value)))?,
            None => return Err(wrong("a dict with `metric`", None)),
        };
        let known = ["metric", "aggregation", "reduction", "higher_is_better", "kwargs"];
        let mut kwargs: Dict = given
            .iter()
            .filter(|(key, _)| key.as_str().is_none_or(|key| !known.contains(&key)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        match given.get_str("kwargs") {
            None => {}
            Some(Value::Dict(explicit)) => kwargs.update(explicit),
            Some(other) => return Err(wrong("a dict whose `kwargs` are a dict", Some(other))),
        }
        // Reference: a value that is neither a name nor a function is treated as null.
        let named = |key: &str| match given.get_str(key) {
            None => Setting::Inherited,
            Some(value) => reference(value).map_or(Setting::Null, Setting::Given),
        };
        Ok(Self {
            metric,
            aggregation: named("aggregation"),
            reduction: named("reduction"),
            higher_is_better: match given.get_str("higher_is_better") {
                None => Setting::Inherited,
                Some(Value::None) => Setting::Null,
                Some(truth) => Setting::Given(truth.is_truthy()),
            },
            kwargs,
        })
    }
}

fn reference(value: &Value) -> Option<Reference> {
    match value {
        Value::Str(name) => Some(Reference::Name(Arc::clone(name))),
        Value::Function(function) => Some(Reference::Function(Arc::clone(function))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmeval_pycompat::yaml;

    fn read(text: &str) -> Result<MetricSpec, MetricConfigError> {
        MetricSpec::from_value(&yaml::load(text).unwrap().value)
    }

    #[test]
    fn parses_entries() {
        let spec = read(
            "{metric: exact_match, ignore_case: true, aggregation: null, reduction: pass@2, kwargs: {ignore_case: false}}",
        );
        let expected = MetricSpec {
            aggregation: Setting::Null,
            ..MetricSpec::named("exact_match").with("ignore_case", false).with_reduction("pass@2")
        };
        assert_eq!(spec.unwrap(), expected);
        for (text, expected) in [
            ("acc", "An entry of `metric_list` must be a dict with `metric`, not `str`"),
            ("{name: acc}", "An entry of `metric_list` must be a dict with `metric`, not a dict without it"),
            (
                "{metric: acc, kwargs: 1}",
                "An entry of `metric_list` must be a dict whose `kwargs` are a dict, not `int`",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), expected);
        }
    }
}
