//! Selects a format from the `formats` value of a task and the caller's choice.

use std::sync::Arc;

use lmeval_core::nearest;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::formats::Format;
use lmeval_scoring::registry::Registry;

use super::overrides::Overrides;
use crate::config::{listed, shortened, value_text};
use crate::error::{Error, ErrorKind, Location};
use crate::source::{Mapping, Step};

/// The format selected for a task.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedFormat {
    /// The name it was selected by: a key of the task's `formats` table, or a registered name.
    pub name: Arc<str>,
    /// The format with the task's overrides applied.
    pub format: Format,
}

/// Selects the format of a task from its `formats` value and the caller's choice (`task@selection`).
///
/// The caller's choice always wins: over a plain name, over a single format with overrides, and among the keys of a
/// table. `mapping` is the task's mapping, which provides the location of an error.
pub fn resolve(
    formats: &Value,
    selection: Option<&str>,
    registry: &Registry,
    mapping: &Mapping,
) -> Result<SelectedFormat, Error> {
    let (steps, outcome) = match formats {
        Value::Str(name) => (vec![], by_name(selection.unwrap_or(name), registry)),
        Value::Dict(single) if single.contains_str("type") => (vec![], one(single, selection, registry)),
        Value::Dict(table) => from_table(table, selection, registry),
        other => {
            let message = format!("`formats` must be a str or a dict, not {}", other.type_name());
            (vec![], Err(Error::new(ErrorKind::Type, message)))
        }
    };
    outcome.map_err(|error| {
        let path: Vec<Step> = std::iter::once(Step::from("formats")).chain(steps).collect();
        error.at(locate(mapping, &path))
    })
}

/// The location of a value below `formats`, or of the task's name if only the name selects a format.
pub(crate) fn locate(mapping: &Mapping, path: &[Step]) -> Option<Location> {
    mapping.locate(path).or_else(|| mapping.locate(&[Step::from("task")]))
}

/// Looks up a format; the error lists the known names.
fn find<'a>(registry: &'a Registry, name: &str) -> Result<&'a Format, Error> {
    registry.formats.get(name).and_then(|entry| entry.code.rust()).map(|format| &**format).ok_or_else(|| {
        let unknown = registry.formats.unknown(name);
        let near: Vec<&str> = unknown.nearest.iter().map(String::as_str).collect();
        Error::new(ErrorKind::Value, format!("`{}` is not a known format", shortened(name)))
            .did_you_mean(&near)
            .hint(format!("The formats are {}", listed(&unknown.known)))
    })
}

fn by_name(name: &str, registry: &Registry) -> Result<SelectedFormat, Error> {
    Ok(SelectedFormat { name: name.into(), format: find(registry, name)?.clone() })
}

fn one(single: &Dict, selection: Option<&str>, registry: &Registry) -> Result<SelectedFormat, Error> {
    let kind = match single.get_str("type") {
        Some(Value::Str(kind)) => kind,
        other => {
            let found = other.map_or("nothing", Value::type_name);
            let message = format!("The `type` of a format must be a str, not {found}");
            return Err(Error::new(ErrorKind::Type, message));
        }
    };
    match selection {
        Some(name) if name != &**kind => by_name(name, registry),
        _ => Ok(SelectedFormat {
            name: Arc::clone(kind),
            format: find(registry, kind)?.with_overrides(single)?,
        }),
    }
}

fn from_table(
    table: &Dict,
    selection: Option<&str>,
    registry: &Registry,
) -> (Vec<Step>, Result<SelectedFormat, Error>) {
    let entry = match selection {
        Some(name) => table.iter().find(|(key, _)| key.as_str() == Some(name)),
        None => table.get_index(0),
    };
    let Some((key, value)) = entry else {
        return (vec![], Err(no_entry(table, selection)));
    };
    let Value::Str(key) = key else {
        let message = format!("The name of a format must be a str, not {}", key.type_name());
        return (vec![], Err(Error::new(ErrorKind::Type, message).hint("Put the name in quotes")));
    };
    let outcome = match value {
        Value::Str(name) => by_name(name, registry).map(|found| found.format),
        Value::None => by_name(key, registry).map(|found| found.format),
        Value::Dict(overrides) if overrides.contains_str("type") => {
            one(overrides, None, registry).map(|found| found.format)
        }
        Value::Dict(overrides) => find(registry, key).and_then(|format| format.with_overrides(overrides)),
        other => Err(Error::new(
            ErrorKind::Type,
            format!(
                "The format `{}` must be a str, a dict or None, not {}",
                shortened(key),
                other.type_name()
            ),
        )),
    };
    (vec![Step::Key(Arc::clone(key))], outcome.map(|format| SelectedFormat { name: Arc::clone(key), format }))
}

fn no_entry(table: &Dict, selection: Option<&str>) -> Error {
    let Some(name) = selection else {
        return Error::new(ErrorKind::Value, "`formats` is an empty dict")
            .hint("Name a format, or omit the key");
    };
    let names: Vec<String> = table.keys().map(value_text).collect();
    Error::new(ErrorKind::Value, format!("The task has no format `{}`", shortened(name)))
        .did_you_mean(&nearest(name, names.iter().map(String::as_str)))
        .hint(format!("The formats of the task are {}", listed(&names)))
}
