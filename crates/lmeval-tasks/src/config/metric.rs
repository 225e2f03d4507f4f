//! Entries of `metric_list`.

use lmeval_core::nearest;
use lmeval_pycompat::{Dict, Value};

use super::path::{ConfigPath, Named};
use super::read::Reader;
use crate::error::{Error, ErrorKind};

/// A setting that is absent, null or has a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Given<T> {
    /// The key is absent: the metric's default applies.
    #[default]
    Absent,
    /// The key is null.
    Null,
    /// The key has a value.
    Value(T),
}

impl<T> Given<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }
}

/// One metric of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricConfig {
    /// The metric: a registered name or a function.
    pub metric: Named,
    /// How the values of all documents are aggregated; null means the mean.
    pub aggregation: Given<Named>,
    /// How the values of a document's repeats are reduced; null means the first.
    pub reduction: Given<Named>,
    /// Whether a higher score is better; null means true.
    pub higher_is_better: Given<bool>,
    /// Keyword arguments of the metric.
    pub kwargs: Dict,
    /// Where the entry is in the configuration.
    pub path: ConfigPath,
    entry: Dict,
}

impl MetricConfig {
    /// The normalised form of the entry.
    pub fn to_value(&self) -> Value {
        Value::from(self.entry.clone())
    }

    /// Reads a list of entries; null counts as an empty list.
    pub(super) fn read_list(
        reader: &mut Reader<'_>,
        path: &ConfigPath,
        value: Option<&Value>,
    ) -> Result<Vec<Self>, Error> {
        let Some(value) = value.filter(|value| value.is_truthy()) else {
            return Ok(Vec::new());
        };
        let Value::List(entries) = value else {
            return Err(reader.wrong_type(path, "a list of dicts", value));
        };
        entries
            .iter()
            .enumerate()
            .map(|(index, entry)| Self::read(reader, &path.then(index), entry))
            .collect()
    }

    fn read(reader: &mut Reader<'_>, path: &ConfigPath, value: &Value) -> Result<Self, Error> {
        let Value::Dict(given) = value else {
            let error = reader.wrong_type(path, "a dict", value);
            return Err(match value {
                Value::Str(name) => error.hint(format!("Write `- metric: {name}`")),
                _ => error,
            });
        };
        let Some(name) = given.get_str("metric") else {
            let message = format!("`{path}` has no `metric`");
            return Err(reader.error(ErrorKind::Value, path, message));
        };
        let metric = Named::from_value(name)
            .ok_or_else(|| reader.wrong_type(&path.then("metric"), "a str or a function", name))?;
        let known = ["metric", "aggregation", "higher_is_better", "reduction"];
        warn_of_misspelt_keys(reader, path, given, &known);
        let kwargs = collect_kwargs(reader, path, given, &known)?;
        let mut entry: Dict = given
            .iter()
            .filter(|(key, _)| key.as_str().is_some_and(|key| known.contains(&key)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        entry.insert("kwargs", kwargs.clone());
        Ok(Self {
            metric,
            aggregation: read_named(reader, path, given, "aggregation", "the mean"),
            reduction: read_named(reader, path, given, "reduction", "the first value"),
            higher_is_better: match given.get_str("higher_is_better") {
                None => Given::Absent,
                Some(Value::None) => Given::Null,
                Some(truth) => Given::Value(truth.is_truthy()),
            },
            kwargs,
            path: path.clone(),
            entry,
        })
    }
}

/// All other keys are arguments of the metric, so a misspelt key would silently change scores.
fn warn_of_misspelt_keys(reader: &mut Reader<'_>, path: &ConfigPath, given: &Dict, known: &[&'static str]) {
    for key in given.keys().filter_map(Value::as_str) {
        let is_key = known.contains(&key) || key == "kwargs";
        if let (false, Some(near)) = (is_key, nearest(key, known.iter().copied()).first()) {
            let path = path.then(key);
            reader.warn(
                &path,
                format!("`{path}` is taken as an argument of the metric: did you mean `{near}`?"),
            );
        }
    }
}

// Reference: a value that is neither a name nor a function is treated as null.
fn read_named(
    reader: &mut Reader<'_>,
    path: &ConfigPath,
    given: &Dict,
    key: &str,
    instead: &str,
) -> Given<Named> {
    match given.get_str(key) {
        None => Given::Absent,
        Some(Value::None) => Given::Null,
        Some(value) => match Named::from_value(value) {
            Some(named) => Given::Value(named),
            None => {
                let path = path.then(key);
                reader.warn(
                    &path,
                    format!(
                        "`{path}` is neither a name nor a function but {}, so {instead} is used",
                        value.type_name()
                    ),
                );
                Given::Null
            }
        },
    }
}

/// The keyword arguments of an entry: its extra keys, overlaid with `kwargs`.
pub(super) fn collect_kwargs(
    reader: &Reader<'_>,
    path: &ConfigPath,
    given: &Dict,
    known: &[&str],
) -> Result<Dict, Error> {
    let mut kwargs: Dict = given
        .iter()
        .filter(|(key, _)| key.as_str().is_none_or(|key| key != "kwargs" && !known.contains(&key)))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    match given.get_str("kwargs") {
        None => {}
        Some(Value::Dict(explicit)) => kwargs.update(explicit),
        Some(other) => return Err(reader.wrong_type(&path.then("kwargs"), "a dict", other)),
    }
    Ok(kwargs)
}
