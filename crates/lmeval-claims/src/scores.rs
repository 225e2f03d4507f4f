//! The scores of a results object by the names that recipes and claims use.

use lmeval_analysis::stats::Sampled;
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::TaskOptions;

/// The scores of a results object.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'a> {
    object: &'a Dict,
}

impl<'a> Scores<'a> {
    /// Of a results object, as files have it.
    pub fn new(object: &'a Dict) -> Self {
        Self { object }
    }

    fn section(self, name: &str) -> Option<&'a Dict> {
        self.object.get_str(name)?.as_dict()
    }

    /// The key of a task or group in the results: they may have a group before the name, and options after it.
    pub fn key(self, word: &str) -> Result<String, String> {
        let keys: Vec<&str> =
            self.section("results").into_iter().flat_map(Dict::keys).filter_map(Value::as_str).collect();
        let own = |key: &str| key.rsplit("::").next().unwrap_or(key).to_owned();
        let found =
            keys.iter().find(|key| **key == word).or_else(|| keys.iter().find(|key| own(key) == word));
        if let Some(key) = found {
            return Ok((*key).to_owned());
        }
        let (name, options) = TaskOptions::split(word).unwrap_or((word, TaskOptions::default()));
        let has_shots = |key: &str| {
            let shots = self.section("n-shot").and_then(|shots| shots.get_str(key)?.as_i64());
            // Groups whose members differ have none.
            options.num_fewshot.is_none_or(|wanted| shots.is_none_or(|shots| shots == wanted))
        };
        let found = keys.iter().find(|key| (**key == name || own(key) == name) && has_shots(key));
        found.map(|key| (*key).to_owned()).ok_or_else(|| format!("the run has no scores of `{word}`"))
    }

    /// The tasks of a group, without groups.
    pub fn leaves(self, word: &str) -> Result<Vec<String>, String> {
        let members = |key: &str| -> Vec<String> {
            let members = self.section("group_subtasks").and_then(|groups| groups.get_str(key)?.as_list());
            members.unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (mut open, mut leaves) = (vec![self.key(word)?], Vec::new());
        // A file may claim that a group contains itself.
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = open.pop() {
            if !seen.insert(key.clone()) {
                continue;
            }
            let below = members(&key);
            if below.is_empty() {
                leaves.push(key);
            }
            open.extend(below.into_iter().rev());
        }
        Ok(leaves)
    }

    /// A score of a task or group by its key. Without a filter, it must have only one.
    pub fn number(self, key: &str, metric: &str, filter: Option<&str>) -> Result<Sampled, String> {
        let entry = self.section("results").and_then(|results| results.get_str(key)?.as_dict());
        let entry = entry.ok_or_else(|| format!("the run has no scores of `{key}`"))?;
        let filters: Vec<&str> =
            entry.keys().filter_map(|name| name.as_str()?.strip_prefix(metric)?.strip_prefix(',')).collect();
        let filter = match (filter, filters.as_slice()) {
            (Some(filter), known) if known.contains(&filter) => filter,
            (None, [only]) => only,
            (None, known) if known.contains(&"none") => "none",
            (Some(filter), _) => return Err(format!("`{key}` has no `{metric},{filter}`")),
            (None, []) => return Err(format!("`{key}` has no `{metric}`")),
            (None, several) => {
                return Err(format!(
                    "`{metric}` of `{key}` has the filters `{}`, and none is named",
                    several.join("`, `")
                ));
            }
        };
        let of = |metric: &str| entry.get_str(&format!("{metric},{filter}")).and_then(Value::to_f64);
        let value = of(metric).ok_or_else(|| format!("`{metric},{filter}` of `{key}` is not a number"))?;
        let counted = || self.section("n-samples")?.get_str(key)?.as_dict()?.get_str("effective")?.to_f64();
        let documents = counted().or_else(|| entry.get_str("sample_len")?.to_f64());
        Ok(Sampled { value, stderr: of(&format!("{metric}_stderr")), documents })
    }

    /// A score of a task as recipes and claims name it.
    pub fn score(self, word: &str, metric: &str, filter: Option<&str>) -> Result<Sampled, String> {
        self.number(&self.key(word)?, metric, filter)
    }

    /// Whether more of a metric is better; so it is where the results do not say.
    pub fn higher_is_better(self, key: &str, metric: &str) -> bool {
        let of = || self.section("higher_is_better")?.get_str(key)?.as_dict()?.get_str(metric)?.as_bool();
        of().unwrap_or(true)
    }

    /// Every score with a number: key, metric and filter.
    pub fn all(self) -> Vec<(String, String, String)> {
        let entries = self.section("results").into_iter().flat_map(Dict::iter);
        let of = |(key, entry): (&Value, &Value)| -> Vec<(String, String, String)> {
            let (Some(key), Some(entry)) = (key.as_str(), entry.as_dict()) else { return Vec::new() };
            let scores = entry.iter().filter(|(_, value)| matches!(value, Value::Int(_) | Value::Float(_)));
            scores
                .filter_map(|(name, _)| name.as_str()?.split_once(','))
                .filter(|(metric, _)| !metric.ends_with("_stderr"))
                .map(|(metric, filter)| (key.to_owned(), metric.to_owned(), filter.to_owned()))
                .collect()
        };
        entries.flat_map(of).collect()
    }
}
