//! Entries of `filter_list`.

use lmeval_pycompat::{Dict, Value};

use super::metric::{MetricConfig, collect_kwargs};
use super::path::{ConfigPath, Named};
use super::read::{Reader, value_text};
use crate::error::{Error, ErrorKind};

/// One step of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterStep {
    /// The filter: a registered name or a class.
    pub function: Named,
    /// Keyword arguments of the filter.
    pub kwargs: Dict,
    /// Where the step is in the configuration.
    pub path: ConfigPath,
    written: Value,
}

/// A named chain of filters with the metrics that score its output.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPipeline {
    /// The name of the pipeline, which is part of result keys.
    pub name: String,
    /// The steps; if empty, the scorer's.
    pub filter: Vec<FilterStep>,
    /// The metrics; if empty, the scorer's.
    pub metric_list: Vec<MetricConfig>,
    /// Where the pipeline is in the configuration.
    pub path: ConfigPath,
}

impl FilterStep {
    fn read(reader: &Reader<'_>, path: &ConfigPath, value: &Value) -> Result<Self, Error> {
        let Value::Dict(given) = value else {
            let error = reader.wrong_type(path, "a dict", value);
            return Err(match value {
                Value::Str(name) => error.hint(format!("Write `- function: {name}`")),
                _ => error,
            });
        };
        let Some(written) = given.get_str("function") else {
            return Err(reader.error(ErrorKind::UnknownName, path, format!("`{path}` has no `function`")));
        };
        let function = Named::from_value(written)
            .ok_or_else(|| reader.wrong_type(&path.then("function"), "a str or a function", written))?;
        let kwargs = collect_kwargs(reader, path, given, &["function"])?;
        Ok(Self { function, kwargs, path: path.clone(), written: written.clone() })
    }

    /// The normalised form of the step.
    pub fn to_value(&self) -> Value {
        Value::dict([("function", self.written.clone()), ("kwargs", Value::from(self.kwargs.clone()))])
    }
}

impl FilterPipeline {
    /// The default pipeline, for a task without `filter_list`.
    pub(super) fn plain(metric_list: &[MetricConfig]) -> Self {
        Self {
            name: "none".to_owned(),
            filter: Vec::new(),
            metric_list: metric_list.to_vec(),
            path: ConfigPath::key("filter_list"),
        }
    }

    /// Reads `filter_list`; pipelines without their own metrics get those of the task.
    pub(super) fn read_list(
        reader: &mut Reader<'_>,
        task_metrics: &[MetricConfig],
    ) -> Result<Vec<Self>, Error> {
        let path = ConfigPath::key("filter_list");
        let mapping = reader.mapping;
        let value = match mapping.get("filter_list") {
            Some(value) if value.is_truthy() => value,
            _ => return Ok(vec![Self::plain(task_metrics)]),
        };
        let Value::List(entries) = value else {
            return Err(reader.wrong_type(&path, "a list of dicts", value));
        };
        entries
            .iter()
            .enumerate()
            .map(|(index, entry)| Self::read(reader, &path.then(index), entry, task_metrics))
            .collect()
    }

    fn read(
        reader: &mut Reader<'_>,
        path: &ConfigPath,
        value: &Value,
        task_metrics: &[MetricConfig],
    ) -> Result<Self, Error> {
        let Value::Dict(given) = value else {
            return Err(reader.wrong_type(path, "a dict with `name` and `filter`", value));
        };
        let missing =
            |key: &str| reader.error(ErrorKind::UnknownName, path, format!("`{path}` has no `{key}`"));
        let name = match given.get_str("name") {
            None => return Err(missing("name")),
            Some(Value::Str(name)) => name.as_ref().to_owned(),
            Some(number @ (Value::Int(_) | Value::Float(_))) => value_text(number),
            Some(other) => return Err(reader.wrong_type(&path.then("name"), "a str", other)),
        };
        let steps_path = path.then("filter");
        let filter = match given.get_str("filter") {
            None => {
                let error = missing("filter");
                return Err(if given.contains_str("function") {
                    error.hint("Put the steps into a list: `filter: [{function: …}]`")
                } else {
                    error
                });
            }
            Some(Value::List(steps)) => steps
                .iter()
                .enumerate()
                .map(|(index, step)| FilterStep::read(reader, &steps_path.then(index), step))
                .collect::<Result<_, _>>()?,
            Some(other) => return Err(reader.wrong_type(&steps_path, "a list of dicts", other)),
        };
        let metric_list = match given.get_str("metric_list") {
            None => task_metrics.to_vec(),
            own => MetricConfig::read_list(reader, &path.then("metric_list"), own)?,
        };
        Ok(Self { name, filter, metric_list, path: path.clone() })
    }

    /// The normalised form of the pipeline.
    pub fn to_value(&self) -> Value {
        Value::dict([
            ("name", Value::str(self.name.as_str())),
            ("filter", Value::list(self.filter.iter().map(FilterStep::to_value))),
            ("metric_list", Value::list(self.metric_list.iter().map(MetricConfig::to_value))),
        ])
    }
}
