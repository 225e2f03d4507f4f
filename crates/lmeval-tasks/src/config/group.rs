//! The typed form of a group.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};

use super::keys::GROUP_KEYS;
use super::path::ConfigPath;
use super::read::{Reader, describe, value_text};
use super::words::quoted;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::source::Mapping;

/// A score of a group: the average of its tasks' scores.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateMetric {
    /// The metric, as result keys name it.
    pub metric: String,
    /// The pipelines to average; `None` means every pipeline for which a task reports the metric.
    pub filter_list: Option<Vec<String>>,
    /// A function given as aggregation; the mean is used anyway.
    pub aggregation: Option<Arc<Function>>,
    /// Whether the average is weighted by the number of documents.
    pub weight_by_size: bool,
}

impl AggregateMetric {
    /// The entry as a group file would write it.
    pub fn to_value(&self) -> Value {
        let names = |names: &Vec<String>| Value::list(names.iter().map(|name| Value::from(name.as_str())));
        let aggregation = match &self.aggregation {
            Some(function) => Value::Function(Arc::clone(function)),
            None => Value::from("mean"),
        };
        Value::dict([
            ("metric", Value::from(self.metric.as_str())),
            ("aggregation", aggregation),
            ("weight_by_size", Value::Bool(self.weight_by_size)),
            ("filter_list", self.filter_list.as_ref().map_or(Value::None, names)),
        ])
    }
}

/// The configuration of a group.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The name of the group, which is its key in results.
    pub group: String,
    /// The name shown in tables.
    pub group_alias: Option<String>,
    /// The members; empty if `task` is not a list.
    pub members: Vec<Value>,
    /// Settings applied to all members: a dictionary, or the path of a file.
    pub include: Value,
    /// The scores to compute for the group; empty if it reports none.
    pub aggregate_metric_list: Vec<AggregateMetric>,
    /// Information about the group, such as its version.
    pub metadata: Dict,
}

impl GroupConfig {
    /// Reads a group from its mapping.
    pub fn from_mapping(mapping: &Mapping, warnings: &mut Vec<Diagnostic>) -> Result<Self, Error> {
        let mut reader = Reader { mapping, warnings };
        let reader = &mut reader;
        let Some(group) = reader.label("group")? else {
            return Err(Error::new(ErrorKind::Type, "A group needs a name under `group`"));
        };
        warn_about_others(reader, &group);
        let members = match reader.present("task") {
            Some(Value::List(members)) => members.to_vec(),
            None => Vec::new(),
            Some(other) => {
                let message =
                    format!("`task` of the group `{group}` is {}, so it has no members", describe(other));
                reader.warn(&ConfigPath::key("task"), message);
                if let Some(last) = reader.warnings.last_mut() {
                    last.hints.push("Write the members as a list".to_owned());
                }
                Vec::new()
            }
        };
        let include = match reader.present("include") {
            None => Value::None,
            Some(include @ (Value::Dict(_) | Value::Str(_))) => include.clone(),
            Some(other) => {
                return Err(reader.wrong_type(&ConfigPath::key("include"), "a dict or a str", other));
            }
        };
        Ok(Self {
            group_alias: reader.label("group_alias")?,
            members,
            include,
            aggregate_metric_list: read_aggregates(reader, &group)?,
            metadata: reader.dict("metadata")?.unwrap_or_default(),
            group,
        })
    }

    /// The configuration as a group file would write it.
    pub fn to_definition(&self) -> Value {
        let mut dict = Dict::new();
        dict.insert("group", self.group.as_str());
        if let Some(alias) = &self.group_alias {
            dict.insert("group_alias", alias.as_str());
        }
        dict.insert("task", self.members.clone());
        if !self.include.is_none() {
            dict.insert("include", self.include.clone());
        }
        if !self.aggregate_metric_list.is_empty() {
            dict.insert(
                "aggregate_metric_list",
                Value::list(self.aggregate_metric_list.iter().map(AggregateMetric::to_value)),
            );
        }
        let mut metadata = self.metadata.clone();
        metadata.remove_str("config_source");
        dict.insert("metadata", metadata);
        Value::from(dict)
    }

    /// The version of the group as a string, `N/A` if it has none.
    pub fn version(&self) -> String {
        self.metadata.get_str("version").map_or_else(|| "N/A".to_owned(), value_text)
    }
}

fn warn_about_others(reader: &mut Reader<'_>, group: &str) {
    let mapping = reader.mapping;
    let others: Vec<String> = mapping
        .values()
        .keys()
        .filter(|key| key.as_str().is_none_or(|key| !GROUP_KEYS.contains(&key) && !key.starts_with('_')))
        .map(value_text)
        .collect();
    let Some(first) = others.first() else { return };
    reader.warn(
        &ConfigPath::key(first),
        format!("{} in the group `{group}` has no effect on its members", quoted(&others)),
    );
    if let Some(last) = reader.warnings.last_mut() {
        last.hints.push("Settings for all members belong under `include`".to_owned());
    }
}

fn read_aggregates(reader: &mut Reader<'_>, group: &str) -> Result<Vec<AggregateMetric>, Error> {
    let path = ConfigPath::key("aggregate_metric_list");
    let entries: Vec<(ConfigPath, Value)> = match reader.present("aggregate_metric_list") {
        None => {
            reader.warn(
                &ConfigPath::key("group"),
                format!("The group `{group}` has no `aggregate_metric_list`, so it gets no scores"),
            );
            return Ok(Vec::new());
        }
        Some(entry @ Value::Dict(_)) => vec![(path, entry.clone())],
        Some(Value::List(entries)) => {
            entries.iter().enumerate().map(|(index, entry)| (path.then(index), entry.clone())).collect()
        }
        Some(other) => return Err(reader.wrong_type(&path, "a list of dicts", other)),
    };
    entries.iter().map(|(path, entry)| read_aggregate(reader, path, entry)).collect()
}

fn read_aggregate(reader: &Reader<'_>, path: &ConfigPath, entry: &Value) -> Result<AggregateMetric, Error> {
    const KEYS: [&str; 4] = ["metric", "filter_list", "aggregation", "weight_by_size"];
    let Value::Dict(entry) = entry else {
        return Err(reader.wrong_type(path, "a dict", entry));
    };
    reader.reject_unknown("`aggregate_metric_list`", Some(path), entry, &KEYS)?;
    let metric = match entry.get_str("metric") {
        Some(Value::Str(metric)) => metric.as_ref().to_owned(),
        // The score of a function is reported under the function's name.
        Some(Value::Function(function)) => {
            function.split().map_or(function.reference.as_str(), |(_, name)| name).to_owned()
        }
        None => return Err(reader.error(ErrorKind::Type, path, format!("`{path}` has no `metric`"))),
        Some(other) => return Err(reader.wrong_type(&path.then("metric"), "a str or a function", other)),
    };
    let filters = path.then("filter_list");
    let filter_list = match entry.get_str("filter_list") {
        None | Some(Value::None) => None,
        Some(Value::Str(name)) => Some(vec![name.as_ref().to_owned()]),
        Some(Value::List(names)) => {
            let names = names.iter().enumerate().map(|(index, name)| match name {
                Value::Str(name) => Ok(name.as_ref().to_owned()),
                number @ (Value::Int(_) | Value::Float(_)) => Ok(value_text(number)),
                other => Err(reader.wrong_type(&filters.then(index), "a str", other)),
            });
            Some(names.collect::<Result<_, _>>()?)
        }
        Some(other) => return Err(reader.wrong_type(&filters, "a str or a list of strs", other)),
    };
    let aggregation = match entry.get_str("aggregation") {
        None => None,
        Some(Value::Str(name)) if &**name == "mean" => None,
        Some(Value::Function(function)) => Some(Arc::clone(function)),
        Some(other) => {
            let path = path.then("aggregation");
            return Err(reader
                .error(
                    ErrorKind::Value,
                    &path,
                    format!("`{path}` must be `mean` or a function, not {}", describe(other)),
                )
                .hint("The scores of a group are averages of its tasks' scores"));
        }
    };
    Ok(AggregateMetric {
        metric,
        filter_list,
        aggregation,
        weight_by_size: entry.get_str("weight_by_size").is_none_or(Value::is_truthy),
    })
}
