//! Generation settings from requests and from the model's files.

use lmeval_core::ModelError;
use lmeval_pycompat::{Dict, Value, repr};

use crate::arguments::configuration;
use crate::config::Config;

/// The upper bound of counts, so that sums cannot overflow.
const LARGEST: f64 = (1_u64 << 31) as f64;
/// Objects of `config.json` with settings of the language model. The first one present is used.
const NESTED: [&str; 3] = ["decoder", "generator", "text_config"];

/// The generation settings in a model's files.
///
/// Reference: `generation_config.json` if it exists, otherwise all of `config.json`.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    file: &'static str,
    fields: Config,
    nested: Option<Config>,
}

impl Defaults {
    /// Uses `generation_config.json`, or else `config.json`.
    pub(crate) fn new(own: Option<&Config>, config: &Config) -> Self {
        if let Some(own) = own {
            return Self { file: "generation_config.json", fields: own.clone(), nested: None };
        }
        let nested = NESTED.iter().find_map(|name| config.object(name).ok().flatten());
        Self { file: "config.json", fields: config.clone(), nested }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).or_else(|| self.nested.as_ref()?.get(name))
    }
}

/// The settings of a request, with the model's files as defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) request: &'a Dict,
    pub(super) defaults: &'a Defaults,
}

impl<'a> Fields<'a> {
    /// A setting. A `None` in the request switches it off, whatever the model's files say.
    pub(super) fn get(&self, name: &'a str) -> Option<GivenSetting<'a>> {
        match self.request.get_str(name) {
            Some(Value::None) => None,
            Some(value) => Some(GivenSetting { name, value, file: None }),
            None => self.in_files(name),
        }
    }

    /// A setting of the request only.
    pub(super) fn in_request(&self, name: &'a str) -> Option<GivenSetting<'a>> {
        let value = self.request.get_str(name).filter(|value| !value.is_none())?;
        Some(GivenSetting { name, value, file: None })
    }

    /// A setting of the model's files only.
    pub(super) fn in_files(&self, name: &'a str) -> Option<GivenSetting<'a>> {
        Some(GivenSetting { name, value: self.defaults.get(name)?, file: Some(self.defaults.file) })
    }

    /// An optional finite number.
    pub(super) fn number(&self, name: &'a str) -> Result<Option<f64>, ModelError> {
        self.get(name).map(|found| found.number()).transpose()
    }

    /// An optional number in a range.
    pub(super) fn number_in(
        &self,
        name: &'a str,
        range: &str,
        is_valid: fn(f64) -> bool,
    ) -> Result<Option<f64>, ModelError> {
        let Some(found) = self.get(name) else { return Ok(None) };
        let number = found.number()?;
        if is_valid(number) { Ok(Some(number)) } else { Err(found.wrong(range)) }
    }

    /// An optional count.
    pub(super) fn count(&self, name: &'a str) -> Result<Option<usize>, ModelError> {
        self.get(name).map(|found| found.count()).transpose()
    }

    /// An optional token id.
    pub(super) fn token(&self, name: &'a str) -> Result<Option<u32>, ModelError> {
        let Some(found) = self.get(name) else { return Ok(None) };
        token(found.value).map(Some).ok_or_else(|| found.wrong("a token id"))
    }

    /// Token ids: one, or a list.
    pub(super) fn tokens(&self, name: &'a str) -> Result<Vec<u32>, ModelError> {
        let Some(found) = self.get(name) else { return Ok(Vec::new()) };
        let tokens = match found.value.as_list() {
            Some(list) => list.iter().map(token).collect(),
            None => token(found.value).map(|token| vec![token]),
        };
        tokens.ok_or_else(|| found.wrong("a token id or a list of token ids"))
    }
}

/// A setting that is present.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenSetting<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
    /// The file it comes from, if not from the request.
    file: Option<&'static str>,
}

impl GivenSetting<'_> {
    /// The name of the setting in messages.
    pub(super) fn describe(&self) -> String {
        match self.file {
            None => format!("The generation setting `{}`", self.name),
            Some(file) => format!("The field `{}` of `{file}`", self.name),
        }
    }

    /// An error that the value is invalid.
    pub(super) fn wrong(&self, expected: &str) -> ModelError {
        configuration(format!("{} must be {expected}, not `{}`", self.describe(), repr::repr(self.value)))
    }

    /// The value as a number. Requests from the command line may have it as a string.
    pub(super) fn number(&self) -> Result<f64, ModelError> {
        let number = match self.value {
            Value::Str(text) if self.file.is_none() => text.trim().parse().ok(),
            Value::Str(_) | Value::Bool(_) => None,
            other => other.to_f64(),
        };
        number.filter(|number: &f64| number.is_finite()).ok_or_else(|| self.wrong("a number"))
    }

    /// The value as a count.
    pub(super) fn count(&self) -> Result<usize, ModelError> {
        let number = self.number()?;
        if !(0.0..=LARGEST).contains(&number) {
            return Err(self.wrong("a number from 0 to 2147483648"));
        }
        Ok(number as usize)
    }
}

/// Parses a token id.
pub(super) fn token(value: &Value) -> Option<u32> {
    value.as_i64().filter(|_| !matches!(value, Value::Bool(_))).and_then(|token| u32::try_from(token).ok())
}
