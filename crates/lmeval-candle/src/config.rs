//! The configuration of a model: `config.json`.

use std::path::Path;
use std::sync::Arc;

use lmeval_pycompat::{Dict, Value, json, repr};

use crate::error::{Error, Result};

/// The fields of `config.json`, read with clear errors.
#[derive(Clone, Debug)]
pub struct Config {
    fields: Arc<Dict>,
    /// The names of the objects that these fields stand in.
    place: String,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs_err::read_to_string(path).map_err(|error| Error::file(path, error))?;
        match json::loads(&text) {
            Ok(Value::Dict(fields)) => Ok(Self { fields, place: String::new() }),
            Ok(_) => Err(Error::file(path, "it is no JSON object")),
            Err(error) => Err(Error::file(path, error)),
        }
    }

    /// A configuration with these fields.
    pub fn from_fields(fields: Dict) -> Self {
        Self { fields: Arc::new(fields), place: String::new() }
    }

    /// The value of a field that is there and not `null`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get_str(name).filter(|value| !value.is_none())
    }

    /// Whether a field is there and not `null`.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a field is there and `null`.
    pub fn is_null(&self, name: &str) -> bool {
        self.fields.get_str(name).is_some_and(Value::is_none)
    }

    /// The first field of several names that is there, as a count.
    pub fn first_size(&self, names: &[&str]) -> Result<usize> {
        for name in names {
            match self.optional_size(name)? {
                Some(0) => return Err(self.wrong(name, "a number above 0", &Value::Int(0))),
                Some(size) => return Ok(size),
                None => {}
            }
        }
        Err(Error::MissingField(self.named(names.first().copied().unwrap_or_default())))
    }

    /// A count that has to be there.
    pub fn size(&self, name: &str) -> Result<usize> {
        self.first_size(&[name])
    }

    /// A count, or what stands for it.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize> {
        Ok(self.optional_size(name)?.unwrap_or(default))
    }

    /// A count that may be missing.
    pub fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_i64().and_then(|number| usize::try_from(number).ok());
        // Counts are bounded, so that sums and products of them cannot overflow.
        match number.filter(|number| *number <= 1 << 31) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, "a number that is not negative", value)),
        }
    }

    /// A number, or what stands for it.
    pub fn number_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.optional_number(name)?.unwrap_or(default))
    }

    /// A number that has to be there.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.optional_number(name)?.ok_or_else(|| Error::MissingField(self.named(name)))
    }

    /// A number that may be missing.
    pub fn optional_number(&self, name: &str) -> Result<Option<f64>> {
        match self.get(name) {
            None => Ok(None),
            Some(value @ (Value::Int(_) | Value::Float(_))) => Ok(value.to_f64()),
            Some(other) => Err(self.wrong(name, "a number", other)),
        }
    }

    /// A boolean, or what stands for it.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(name, "`true` or `false`", other)),
        }
    }

    /// A text that may be missing.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a text", other)),
        }
    }

    /// A list of texts; an empty one where it is missing.
    pub fn texts(&self, name: &str) -> Result<Vec<&str>> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let texts = value.as_list().and_then(|list| list.iter().map(Value::as_str).collect());
        texts.ok_or_else(|| self.wrong(name, "a list of texts", value))
    }

    /// A list of numbers that may be missing.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let numbers = value.as_list().and_then(|list| list.iter().map(Value::to_f64).collect());
        numbers.map(Some).ok_or_else(|| self.wrong(name, "a list of numbers", value))
    }

    /// An object that may be missing.
    pub fn object(&self, name: &str) -> Result<Option<Self>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Dict(fields)) => {
                Ok(Some(Self { fields: Arc::clone(fields), place: format!("{}.", self.named(name)) }))
            }
            Some(other) => Err(self.wrong(name, "an object", other)),
        }
    }

    /// The first of several objects that is there and has fields.
    pub fn first_object(&self, names: &[&str]) -> Result<Option<Self>> {
        for name in names {
            if let Some(object) = self.object(name)?.filter(|object| !object.fields.is_empty()) {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// These fields, with those of another object in their place or beside them.
    pub fn updated(&self, with: &Self) -> Self {
        let mut fields = (*self.fields).clone();
        for (name, value) in with.fields.iter() {
            fields.insert(name.clone(), value.clone());
        }
        Self { fields: Arc::new(fields), place: self.place.clone() }
    }

    /// The error of a field with a value that cannot be used.
    pub fn wrong(&self, name: &str, expected: &str, found: &Value) -> Error {
        Error::WrongField { field: self.named(name), expected: expected.into(), found: repr::repr(found) }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }
}
