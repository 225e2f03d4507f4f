//! The `scorer` of a task.

use lmeval_pycompat::{Dict, Value};

use super::path::ConfigPath;
use super::read::Reader;
use crate::error::{Error, ErrorKind};

/// The scorer of a task, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct ScorerConfig {
    /// The name in the registry.
    pub kind: String,
    /// Keyword arguments of the scorer.
    pub kwargs: Dict,
    /// Where the scorer is in the configuration.
    pub path: ConfigPath,
    entry: Dict,
}

impl ScorerConfig {
    /// The normalised form of the scorer.
    pub fn to_value(&self) -> Value {
        Value::from(self.entry.clone())
    }

    /// Reads `scorer`: a name, or a dictionary with `type` and `kwargs`.
    pub(super) fn read(reader: &Reader<'_>) -> Result<Option<Self>, Error> {
        let path = ConfigPath::key("scorer");
        let Some(value) = reader.present("scorer") else {
            return Ok(None);
        };
        let entry = match value {
            Value::Str(name) => Dict::from_iter([(Value::str("type"), Value::Str(name.clone()))]),
            Value::Dict(entry) => Dict::clone(entry),
            other => return Err(reader.wrong_type(&path, "a str or a dict with `type`", other)),
        };
        let kind = match entry.get_str("type") {
            None => {
                return Err(reader.error(ErrorKind::UnknownName, &path, "`scorer` has no `type`"));
            }
            Some(Value::Str(kind)) => kind.as_ref().to_owned(),
            Some(other) => return Err(reader.wrong_type(&path.then("type"), "a str", other)),
        };
        // Arguments are given next to `type` or under `kwargs`, which wins.
        let mut kwargs: Dict = entry
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), Some("type" | "kwargs")))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        match entry.get_str("kwargs") {
            None | Some(Value::None) => {}
            Some(Value::Dict(explicit)) => kwargs.update(explicit),
            Some(other) => return Err(reader.wrong_type(&path.then("kwargs"), "a dict", other)),
        }
        Ok(Some(Self { kind, kwargs, path, entry }))
    }
}
