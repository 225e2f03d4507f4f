//! Groups in results.

use indexmap::IndexMap;
use lmeval_core::Dialect;
use lmeval_scoring::groups::{GroupMetric, GroupSpec};

use crate::config::AggregateMetric;
use crate::error::{Error, ErrorKind};
use crate::{Group, TaskDict};

/// The key in results of every task and group of a run.
#[derive(Clone, Debug, Default)]
pub struct ResultKeys {
    keys: IndexMap<String, String>,
}

impl ResultKeys {
    /// The keys in a dialect: in 0.4, the key of a task does not include its group.
    pub fn new(loaded: &TaskDict, dialect: &Dialect) -> Result<Self, Error> {
        let mut names: IndexMap<&str, &str> = IndexMap::new();
        for name in loaded.tasks.keys() {
            let bare = name.rsplit_once("::").map_or(name.as_str(), |(_, bare)| bare);
            let key = if dialect.scoring.bare_task_keys { bare } else { name };
            if let Some(first) = names.insert(key, name) {
                let message = format!("`{first}` and `{name}` would both be `{key}` in the results");
                return Err(Error::new(ErrorKind::Value, message)
                    .hint("Evaluate them in two runs, or without `--compat 0.4`"));
            }
        }
        let keys = names.into_iter().map(|(key, name)| (name.to_owned(), key.to_owned())).collect();
        Ok(Self { keys })
    }

    /// The key of a task or group by its qualified name.
    pub fn get<'a>(&'a self, name: &'a str) -> &'a str {
        self.keys.get(name).map_or(name, String::as_str)
    }
}

/// The groups of a run as results need them, in load order.
pub fn group_specs(loaded: &TaskDict, keys: &ResultKeys) -> Vec<GroupSpec> {
    let spec = |(name, group): (&String, &Group)| GroupSpec {
        name: name.clone(),
        alias: group.config.group_alias.clone(),
        version: group.config.version(),
        members: loaded
            .group_map
            .get(name)
            .map(|members| members.iter().map(|member| keys.get(member).to_owned()).collect())
            .unwrap_or_default(),
        metrics: group.config.aggregate_metric_list.iter().map(group_metric).collect(),
    };
    loaded.groups.iter().map(spec).collect()
}

fn group_metric(config: &AggregateMetric) -> GroupMetric {
    GroupMetric {
        metric: config.metric.clone(),
        filter_list: config.filter_list.clone(),
        weight_by_size: config.weight_by_size,
    }
}
