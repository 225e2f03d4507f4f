//! `generation_kwargs`: how an answer is generated.

use lmeval_core::OutputType;
use lmeval_pycompat::float::parse_float;
use lmeval_pycompat::{Dict, Value};

use super::path::ConfigPath;
use super::read::{Reader, describe};
use crate::error::{Error, ErrorKind};

/// The settings of a generation, in order, as every request carries them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationKwargs(Dict);

impl GenerationKwargs {
    /// The settings.
    pub fn dict(&self) -> &Dict {
        &self.0
    }

    /// One setting.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get_str(key)
    }

    /// The stop texts: a list as it is, any other value alone.
    pub fn until(&self) -> Vec<Value> {
        match self.get("until") {
            None => Vec::new(),
            Some(Value::List(stops)) => stops.to_vec(),
            Some(other) => vec![other.clone()],
        }
    }

    /// The most tokens to generate, by whichever of its four names comes first and is not null.
    pub fn max_gen_toks(&self) -> Option<&Value> {
        ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"]
            .into_iter()
            .filter_map(|key| self.get(key))
            .find(|value| !value.is_none())
    }

    /// Puts settings of the caller over these; nothing is normalised again.
    pub fn merge(&mut self, settings: &Dict) {
        self.0.update(settings);
    }

    /// Reads and normalises `generation_kwargs` of a task.
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
            _ if output_type != OutputType::GenerateUntil => return Ok(Self::default()),
            _ => {
                let defaults = [
                    ("temperature", Value::Float(0.0)),
                    ("do_sample", Value::Bool(false)),
                    ("max_gen_toks", Value::Int(256)),
                    ("until", delimiters()),
                ];
                return Ok(Self(defaults.into_iter().map(|(key, value)| (Value::str(key), value)).collect()));
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
        Ok(Self(settings))
    }
}

/// Python's `float(value)`, for numbers and text.
fn to_float(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => parse_float(text),
        other => other.to_f64(),
    }
}
