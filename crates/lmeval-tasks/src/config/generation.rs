//! `generation_kwargs`: settings of a generation.

use lmeval_core::{Dialect, OutputType};
use lmeval_pycompat::float::parse_float;
use lmeval_pycompat::{Dict, Value};

use super::path::ConfigPath;
use super::read::{Reader, describe};
use crate::error::{Error, ErrorKind};

/// The settings of a generation, in the order in which every request carries them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationKwargs {
    settings: Dict,
    /// For an empty mapping: only the stop strings, without the other defaults.
    unfilled: Option<Dict>,
}

impl GenerationKwargs {
    /// All settings, with defaults filled in.
    pub fn dict(&self) -> &Dict {
        &self.settings
    }

    /// The settings in a dialect; the dialects differ if the task's mapping is present but empty.
    pub fn in_dialect(&self, dialect: &Dialect) -> &Dict {
        match &self.unfilled {
            Some(unfilled) if !dialect.fill_empty_generation_kwargs => unfilled,
            _ => &self.settings,
        }
    }

    /// The value of one setting.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.settings.get_str(key)
    }

    /// The stop strings: a list as it is, any other value as a single item.
    pub fn until(&self) -> Vec<Value> {
        match self.get("until") {
            None => Vec::new(),
            Some(Value::List(stops)) => stops.to_vec(),
            Some(other) => vec![other.clone()],
        }
    }

    /// The maximum number of tokens to generate, from the first of its four names that is not null.
    pub fn max_gen_toks(&self) -> Option<&Value> {
        ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"]
            .into_iter()
            .filter_map(|key| self.get(key))
            .find(|value| !value.is_none())
    }

    /// Overlays the caller's settings, without normalising again.
    pub fn merge(&mut self, settings: &Dict) {
        self.settings.update(settings);
        if let Some(unfilled) = &mut self.unfilled {
            unfilled.update(settings);
        }
    }

    /// Reads and normalises a task's `generation_kwargs`.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        output_type: OutputType,
        fewshot_delimiter: Option<&str>,
    ) -> Result<Self, Error> {
        let path = ConfigPath::key("generation_kwargs");
        let delimiters = || Value::list(fewshot_delimiter.map(Value::str));
        let given = match reader.mapping.get("generation_kwargs") {
            Some(Value::Dict(given)) if !given.is_empty() => Dict::clone(given),
            Some(other) if other.is_truthy() => return Err(reader.wrong_type(&path, "a dict", other)),
            empty => {
                let defaults = [
                    ("temperature", Value::Float(0.0)),
                    ("do_sample", Value::Bool(false)),
                    ("max_gen_toks", Value::Int(256)),
                    ("until", delimiters()),
                ];
                let defaults = defaults.into_iter().map(|(key, value)| (Value::str(key), value));
                let is_generation = output_type == OutputType::GenerateUntil;
                let stops = if is_generation {
                    delimiters()
                } else {
                    // These never reach a model, so they stay as results show them, nulls included.
                    Value::list([fewshot_delimiter.map_or(Value::None, Value::str)])
                };
                let is_there = matches!(empty, Some(Value::Dict(_)));
                return Ok(Self {
                    settings: if is_generation { defaults.collect() } else { Dict::new() },
                    unfilled: is_there.then(|| Dict::from_iter([(Value::str("until"), stops)])),
                });
            }
        };
        if output_type != OutputType::GenerateUntil {
            reader.warn(
                &path,
                format!("`generation_kwargs` has no effect on a task with output type `{output_type}`"),
            );
        }
        let mut settings = given;
        if let Some(temperature) = settings.get_str("temperature") {
            let number = to_float(temperature).ok_or_else(|| {
                reader.error(
                    ErrorKind::Type,
                    &path.then("temperature"),
                    format!("`{path}.temperature` must be a number, not {}", describe(temperature)),
                )
            })?;
            settings.insert("temperature", number);
        }
        if !settings.contains_str("until") {
            settings.insert("until", delimiters());
        }
        Ok(Self { settings, unfilled: None })
    }
}

/// Python's `float(value)`, for numbers and strings.
fn to_float(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => parse_float(text),
        other => other.to_f64(),
    }
}
