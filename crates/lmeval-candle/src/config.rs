//! Model configuration: `config.json`.

use std::path::Path;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, json, repr};

use crate::error::{Error, Result};

/// The fields of `config.json`, with typed accessors that name the field in errors.
#[derive(Clone, Debug)]
pub struct Config {
    fields: Arc<Dict>,
    /// The path of this object in the file, such as `rope_scaling.`.
    path: String,
}

impl Config {
    /// Reads a JSON file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs_err::read_to_string(path).map_err(|error| Error::file(path, error))?;
        match json::loads(&text) {
            Ok(Value::Dict(fields)) => Ok(Self { fields, path: String::new() }),
            Ok(_) => Err(Error::file(path, "it is not a JSON object")),
            Err(error) => Err(Error::file(path, error)),
        }
    }

    /// A configuration with these fields.
    pub fn from_fields(fields: Dict) -> Self {
        Self { fields: Arc::new(fields), path: String::new() }
    }

    /// The value of a field, unless it is missing or `null`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get_str(name).filter(|value| !value.is_none())
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().filter_map(Value::as_str)
    }

    /// Whether a field is present and not `null`.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a field is present and `null`.
    pub fn is_null(&self, name: &str) -> bool {
        self.fields.get_str(name).is_some_and(Value::is_none)
    }

    /// The first present field of several names, as a positive integer.
    pub fn first_size(&self, names: &[&str]) -> Result<usize> {
        for name in names {
            match self.optional_size(name)? {
                Some(0) => return Err(self.wrong(name, "a positive integer", &Value::Int(0))),
                Some(size) => return Ok(size),
                None => {}
            }
        }
        Err(Error::MissingField(self.named(names.first().copied().unwrap_or_default())))
    }

    /// A required positive integer.
    pub fn size(&self, name: &str) -> Result<usize> {
        self.first_size(&[name])
    }

    /// A non-negative integer, or the default.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize> {
        Ok(self.optional_size(name)?.unwrap_or(default))
    }

    /// An optional non-negative integer.
    pub fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_i64().filter(|_| !matches!(value, Value::Bool(_)));
        let number = number.and_then(|number| usize::try_from(number).ok());
        // Bounded so that sums and products cannot overflow.
        match number.filter(|number| *number <= 1 << 31) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, "a non-negative integer", value)),
        }
    }

    /// A number, or the default.
    pub fn number_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.optional_number(name)?.unwrap_or(default))
    }

    /// A required number.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.optional_number(name)?.ok_or_else(|| Error::MissingField(self.named(name)))
    }

    /// An optional number.
    pub fn optional_number(&self, name: &str) -> Result<Option<f64>> {
        match self.get(name) {
            None => Ok(None),
            // Python's JSON has NaN and infinity, but no model does.
            Some(value) if matches!(value, Value::Int(_) | Value::Float(_)) => {
                let number = value.to_f64().filter(|number| number.is_finite());
                number.map(Some).ok_or_else(|| self.wrong(name, "a finite number", value))
            }
            Some(other) => Err(self.wrong(name, "a number", other)),
        }
    }

    /// A number that must be positive in float32, if it is there.
    pub fn optional_positive(&self, name: &str) -> Result<Option<f64>> {
        match self.optional_number(name)? {
            Some(number) if !(number as f32 > 0.0 && (number as f32).is_finite()) => {
                Err(self.wrong(name, "a positive number", &Value::Float(number)))
            }
            number => Ok(number),
        }
    }

    /// A boolean, or the default.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(name, "`true` or `false`", other)),
        }
    }

    /// An optional string.
    pub fn string(&self, name: &str) -> Result<Option<&str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    /// A list of strings; empty if missing.
    pub fn strings(&self, name: &str) -> Result<Vec<&str>> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let strings = value.as_list().and_then(|list| list.iter().map(Value::as_str).collect());
        strings.ok_or_else(|| self.wrong(name, "a list of strings", value))
    }

    /// The first present list of strings of several names; empty if all are missing.
    pub fn first_strings(&self, names: &[&str]) -> Result<Vec<&str>> {
        self.strings(names.iter().find(|name| self.has(name)).copied().unwrap_or_default())
    }

    /// An optional list of numbers.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let finite = |value: &Value| value.to_f64().filter(|number| number.is_finite());
        let numbers = value.as_list().and_then(|list| list.iter().map(finite).collect());
        numbers.map(Some).ok_or_else(|| self.wrong(name, "a list of finite numbers", value))
    }

    /// An optional object.
    pub fn object(&self, name: &str) -> Result<Option<Self>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Dict(fields)) => {
                Ok(Some(Self { fields: Arc::clone(fields), path: format!("{}.", self.named(name)) }))
            }
            Some(other) => Err(self.wrong(name, "an object", other)),
        }
    }

    /// The first present object of several names that is not empty.
    pub fn first_object(&self, names: &[&str]) -> Result<Option<Self>> {
        for name in names {
            if let Some(object) = self.object(name)?.filter(|object| !object.fields.is_empty()) {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// A copy of this object with the fields of another merged in, which win.
    pub fn updated(&self, with: &Self) -> Self {
        let mut fields = (*self.fields).clone();
        for (name, value) in with.fields.iter() {
            fields.insert(name.clone(), value.clone());
        }
        Self { fields: Arc::new(fields), path: self.path.clone() }
    }

    /// A copy of this object in which these fields are set, unless they are present.
    pub fn with_defaults(&self, defaults: &[(&str, Value)]) -> Self {
        let mut fields = (*self.fields).clone();
        for (name, value) in defaults {
            if fields.get_str(name).is_none() {
                fields.insert(*name, value.clone());
            }
        }
        Self { fields: Arc::new(fields), path: self.path.clone() }
    }

    /// An error that a field has an unsupported value.
    pub fn wrong(&self, name: &str, expected: &str, found: &Value) -> Error {
        Error::WrongField { field: self.named(name), expected: expected.into(), found: repr::repr(found) }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }
}
