//! Typed reading of a mapping; errors name the location and the expected type.

use std::sync::Arc;

use lmeval_pycompat::repr::repr;
use lmeval_pycompat::{Dict, Function, Value};

use super::field::Field;
use super::path::ConfigPath;
use super::words::shortened;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::source::Mapping;

/// A mapping that is being read, and the warnings so far.
pub(super) struct Reader<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) warnings: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    /// An error at a path.
    pub(super) fn error(&self, kind: ErrorKind, path: &ConfigPath, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(path.locate(self.mapping))
    }

    /// The error for a value of the wrong type.
    pub(super) fn wrong_type(&self, path: &ConfigPath, expected: &str, found: &Value) -> Error {
        let message = format!("`{path}` must be {expected}, not {}", describe(found));
        let error = self.error(ErrorKind::Type, path, message);
        let quotable = matches!(
            found,
            Value::Bool(_)
                | Value::Int(_)
                | Value::BigInt(_)
                | Value::Float(_)
                | Value::Date(_)
                | Value::DateTime(_)
        );
        if quotable && expected.contains("a str") {
            error.hint("Put the value in quotes: YAML reads it as something other than a string")
        } else if matches!(found, Value::Str(_)) && expected.contains("a function") {
            error.hint("Write `!function module.name`")
        } else {
            error
        }
    }

    /// Records a warning about a path.
    pub(super) fn warn(&mut self, path: &ConfigPath, message: impl Into<String>) {
        let location = path.locate(self.mapping);
        self.warnings.push(Diagnostic::new(message).at(location));
    }

    /// A value that is present and not null.
    pub(super) fn present(&self, key: &str) -> Option<&Value> {
        self.mapping.get(key).filter(|value| !value.is_none())
    }

    /// An optional string.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        self.text_of(&ConfigPath::key(key), self.present(key))
    }

    /// An optional string below the top level.
    pub(super) fn text_of(&self, path: &ConfigPath, value: Option<&Value>) -> Result<Option<String>, Error> {
        match value {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text.as_ref().to_owned())),
            Some(other) => Err(self.wrong_type(path, "a str", other)),
        }
    }

    /// An optional string with a default for an absent key; null stays `None`.
    pub(super) fn text_or(&self, key: &str, default: &str) -> Result<Option<String>, Error> {
        if self.mapping.contains(key) { self.text(key) } else { Ok(Some(default.to_owned())) }
    }

    /// An optional string for display; numbers are accepted too.
    pub(super) fn label(&self, key: &str) -> Result<Option<String>, Error> {
        match self.present(key) {
            Some(number @ (Value::Int(_) | Value::Float(_) | Value::Bool(_))) => Ok(Some(value_text(number))),
            _ => self.text(key),
        }
    }

    /// An optional integer.
    pub(super) fn int(&self, key: &str) -> Result<Option<i64>, Error> {
        match self.present(key) {
            None => Ok(None),
            Some(value) => self.int_of(&ConfigPath::key(key), value).map(Some),
        }
    }

    /// An integer below the top level.
    pub(super) fn int_of(&self, path: &ConfigPath, value: &Value) -> Result<i64, Error> {
        match value {
            Value::BigInt(number) => {
                let message = format!("`{path}` is too large: `{}`", shortened(&number.to_string()));
                Err(self.error(ErrorKind::Value, path, message))
            }
            _ => value.as_i64().ok_or_else(|| self.wrong_type(path, "an int", value)),
        }
    }

    /// A boolean; null means false, and 0 and 1 are accepted.
    pub(super) fn switch(&self, key: &str) -> Result<bool, Error> {
        match self.present(key) {
            None => Ok(false),
            Some(value @ (Value::Bool(_) | Value::Int(_))) => Ok(value.is_truthy()),
            Some(other) => Err(self.wrong_type(&ConfigPath::key(key), "a bool", other)),
        }
    }

    pub(super) fn function(&self, key: &str) -> Result<Option<Arc<Function>>, Error> {
        self.function_of(&ConfigPath::key(key), self.present(key))
    }

    /// An optional function below the top level.
    pub(super) fn function_of(
        &self,
        path: &ConfigPath,
        value: Option<&Value>,
    ) -> Result<Option<Arc<Function>>, Error> {
        match value {
            None | Some(Value::None) => Ok(None),
            Some(Value::Function(function)) => Ok(Some(Arc::clone(function))),
            Some(other) => Err(self.wrong_type(path, "a function", other)),
        }
    }

    pub(super) fn dict(&self, key: &str) -> Result<Option<Dict>, Error> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::Dict(dict)) => Ok(Some(Dict::clone(dict))),
            Some(other) => Err(self.wrong_type(&ConfigPath::key(key), "a dict", other)),
        }
    }

    /// An optional field that is resolved per document.
    pub(super) fn field(&self, key: &str) -> Result<Option<Field>, Error> {
        self.field_of(&ConfigPath::key(key), self.present(key))
    }

    /// An optional field below the top level.
    pub(super) fn field_of(&self, path: &ConfigPath, value: Option<&Value>) -> Result<Option<Field>, Error> {
        let Some(value) = value.filter(|value| !value.is_none()) else {
            return Ok(None);
        };
        let options =
            matches!(path.steps().last(), Some(crate::source::Step::Key(key)) if &**key == "doc_to_choice");
        match Field::from_value(value) {
            Some(Field::Dict(_)) if !options => {}
            Some(field) => return Ok(Some(field)),
            None => {}
        }
        let expected = "a str (a column name or a template), a function, an int or a list";
        let error = self.error(
            ErrorKind::Value,
            path,
            format!("`{path}` must be {expected}, not {}", describe(value)),
        );
        Err(match value {
            Value::Float(_) | Value::Date(_) | Value::DateTime(_) => {
                error.hint("Put the value in quotes: YAML reads it as something other than a string")
            }
            _ => error,
        })
    }
}

/// Describes a value in a message: its type, and its value if that is short.
pub(super) fn describe(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = match value {
        Value::None => return "None".to_owned(),
        Value::Function(function) => function.reference.clone(),
        other => repr(other),
    };
    if text.chars().count() > LONGEST {
        value.type_name().to_owned()
    } else {
        format!("{} (`{text}`)", value.type_name())
    }
}

/// Python's `str(value)`: strings as they are, other values as Python prints them.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.as_ref().to_owned(),
        Value::Function(function) => function.reference.clone(),
        other => repr(other),
    }
}
