//! The limits in force.

use serde_json::{Map, Value};

/// All limits, in the order in which they are shown.
const NAMES: [&str; 14] = [
    "time",
    "memory",
    "processes",
    "threads",
    "files",
    "disk",
    "file size",
    "open files",
    "core dumps",
    "network",
    "signals",
    "system calls",
    "privileges",
    "environment",
];

/// One limit, in force or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The resource that is limited.
    pub name: String,
    /// Whether the limit was in force.
    pub in_force: bool,
    /// The limit and the mechanism that enforces it, or why it was not in force.
    pub text: String,
}

/// The limits that a program ran under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    limits: Vec<Limit>,
}

impl Report {
    /// The limits, most important first.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The limit with a name.
    pub fn get(&self, name: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.name == name)
    }

    /// Adds a limit in force, or the reason why it is not.
    pub(crate) fn add(&mut self, name: &str, state: Result<String, String>) {
        let (in_force, text) = match state {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        self.limits.push(Limit { name: name.to_owned(), in_force, text });
        self.limits.sort_by_key(|limit| NAMES.iter().position(|name| *name == limit.name));
    }

    /// The report as JSON: `{"memory": {"in_force": true, "limit": "2048 MiB"}, …}`.
    pub fn to_json(&self) -> Value {
        let entry = |limit: &Limit| {
            let what = if limit.in_force { "limit" } else { "reason" };
            let value = Value::Object(Map::from_iter([
                ("in_force".to_owned(), Value::from(limit.in_force)),
                (what.to_owned(), Value::from(limit.text.as_str())),
            ]));
            (limit.name.clone(), value)
        };
        Value::Object(self.limits.iter().map(entry).collect())
    }

    /// Parses the output of [`Report::to_json`].
    pub fn from_json(value: &Value) -> Option<Self> {
        let limits = value.as_object()?.iter().map(|(name, state)| {
            let in_force = state.get("in_force")?.as_bool()?;
            let text = state.get(if in_force { "limit" } else { "reason" })?.as_str()?;
            Some(Limit { name: name.clone(), in_force, text: text.to_owned() })
        });
        Some(Self { limits: limits.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_round_trips_through_json_in_order() {
        let mut report = Report::default();
        report.add("network", Err("nothing enforces it".to_owned()));
        report.add("time", Ok("3 s".to_owned()));
        assert_eq!(report.limits()[0].name, "time");
        assert_eq!(Report::from_json(&report.to_json()), Some(report.clone()));
        assert!(!report.get("network").unwrap().in_force);
    }
}
