//! Settings as they were given: flags over a file.

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use lmeval_pycompat::{Dict, Value, float, repr};
use lmeval_tasks::{Error, ErrorKind};

use crate::run::config_file::ConfigFile;
use crate::run::dict_option;

/// Settings by name, each of the kind that its reader asks for, or an error that shows its place.
pub(crate) struct Layers {
    /// What the flags say, and the file where they say nothing.
    pub merged: Dict,
    /// What the flags say.
    pub given: Dict,
    /// The file.
    pub file: Option<ConfigFile>,
}

impl Layers {
    /// The value of a setting, null where it was not given.
    pub(crate) fn value(&self, name: &str) -> Value {
        self.merged.get_str(name).cloned().unwrap_or(Value::None)
    }

    /// A text; whole numbers count by theirs.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        match self.value(name) {
            Value::None => Ok(None),
            Value::Str(text) => Ok(Some(text.to_string())),
            number @ Value::Int(_) => Ok(Some(repr::str(&number))),
            _ => Err(self.wrong(name, "text")),
        }
    }

    /// Whether something is to be done.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.value(name) {
            Value::None => Ok(false),
            Value::Bool(flag) => Ok(flag),
            Value::Int(number) => Ok(number != 0),
            _ => Err(self.wrong(name, "true or false")),
        }
    }

    /// A whole number.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>> {
        match self.value(name) {
            Value::None => Ok(None),
            Value::Int(number) => Ok(Some(number)),
            _ => Err(self.wrong(name, "a whole number")),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>> {
        let Some(number) = self.integer(name)? else { return Ok(None) };
        usize::try_from(number).map(Some).map_err(|_| {
            let message = format!("`{name}` must be a whole number that is not negative, not {number}");
            self.located(name, message)
        })
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.value(name) {
            Value::None => Ok(None),
            value @ (Value::Int(_) | Value::Float(_)) => Ok(value.to_f64()),
            // YAML 1.1 takes `1e3` for text.
            Value::Str(text) => {
                float::parse_float(&text).map(Some).ok_or_else(|| self.wrong(name, "a number"))
            }
            _ => Err(self.wrong(name, "a number")),
        }
    }

    /// A mapping, or text that stands for one; empty where it was not given.
    pub(crate) fn dict(&self, name: &str) -> Result<Dict> {
        match self.value(name) {
            Value::None => Ok(Dict::new()),
            Value::Dict(dict) => Ok(Dict::clone(&dict)),
            Value::Str(text) => Ok(dict_option::from_text(&text)),
            _ => Err(self.wrong(name, "a mapping")),
        }
    }

    /// One of several names.
    pub(crate) fn choice<T: ValueEnum + Default>(&self, name: &str) -> Result<T> {
        let Some(text) = self.text(name)? else { return Ok(T::default()) };
        T::from_str(&text, true).map_err(|_| {
            let names: Vec<String> = T::value_variants()
                .iter()
                .filter_map(|variant| Some(format!("`{}`", variant.to_possible_value()?.get_name())))
                .collect();
            self.wrong(name, &format!("one of {}", names.join(", ")))
        })
    }

    /// The error of a value of the wrong kind. The value itself is not shown: it may be a secret.
    pub(crate) fn wrong(&self, name: &str, expected: &str) -> anyhow::Error {
        self.located(name, format!("`{name}` must be {expected}, not {}", self.value(name).type_name()))
    }

    /// An error that shows the place in the file, where the setting comes from there.
    pub(crate) fn located(&self, name: &str, message: String) -> anyhow::Error {
        let place = self.file.as_ref().filter(|_| !self.given.contains_str(name));
        match place.and_then(|file| file.locate(name)) {
            Some(location) => Error::new(ErrorKind::Type, message).at(Some(location)).into(),
            None => anyhow!(message),
        }
    }
}
