//! Where generation settings stand: in a request, or in the model's files.

use lmeval_core::ModelError;
use lmeval_pycompat::{Dict, Value, repr};

use crate::arguments::configuration;
use crate::config::Config;

/// No count is larger, so that sums of them cannot overflow.
const LARGEST: f64 = (1_u64 << 31) as f64;
/// Objects of `config.json` that hold settings of the part that generates, the first of them that is there.
const NESTED: [&str; 3] = ["decoder", "generator", "text_config"];

/// What a model's files say about generation.
///
/// Reference: `generation_config.json` alone counts where it is there, and all of `config.json` otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    file: &'static str,
    fields: Config,
    nested: Option<Config>,
}

impl Defaults {
    /// Takes `generation_config.json`, or else `config.json`.
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

/// The settings of a request, with those of the model for what it does not say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) request: &'a Dict,
    pub(super) defaults: &'a Defaults,
}

impl<'a> Fields<'a> {
    /// A setting. One that a request sets to `None` is off, whatever the model's files say.
    pub(super) fn get(&self, name: &'a str) -> Option<Found<'a>> {
        match self.request.get_str(name) {
            Some(Value::None) => None,
            Some(value) => Some(Found { name, value, file: None }),
            None => self.of_model(name),
        }
    }

    /// A setting of the request alone.
    pub(super) fn of_request(&self, name: &'a str) -> Option<Found<'a>> {
        let value = self.request.get_str(name).filter(|value| !value.is_none())?;
        Some(Found { name, value, file: None })
    }

    /// A setting of the model alone.
    pub(super) fn of_model(&self, name: &'a str) -> Option<Found<'a>> {
        Some(Found { name, value: self.defaults.get(name)?, file: Some(self.defaults.file) })
    }

    /// A number.
    pub(super) fn number(&self, name: &'a str) -> Result<Option<f64>, ModelError> {
        self.get(name).map(|found| found.number()).transpose()
    }

    /// A number that has to lie in a range.
    pub(super) fn number_in(
        &self,
        name: &'a str,
        range: &str,
        is_right: fn(f64) -> bool,
    ) -> Result<Option<f64>, ModelError> {
        let Some(found) = self.get(name) else { return Ok(None) };
        let number = found.number()?;
        if is_right(number) { Ok(Some(number)) } else { Err(found.wrong(range)) }
    }

    /// A count.
    pub(super) fn count(&self, name: &'a str) -> Result<Option<usize>, ModelError> {
        self.get(name).map(|found| found.count()).transpose()
    }

    /// A token.
    pub(super) fn token(&self, name: &'a str) -> Result<Option<u32>, ModelError> {
        let Some(found) = self.get(name) else { return Ok(None) };
        token(found.value).map(Some).ok_or_else(|| found.wrong("the number of a token"))
    }

    /// Tokens: one, or a list of them.
    pub(super) fn tokens(&self, name: &'a str) -> Result<Vec<u32>, ModelError> {
        let Some(found) = self.get(name) else { return Ok(Vec::new()) };
        let tokens = match found.value.as_list() {
            Some(list) => list.iter().map(token).collect(),
            None => token(found.value).map(|token| vec![token]),
        };
        tokens.ok_or_else(|| found.wrong("the number of a token or a list of such numbers"))
    }
}

/// A setting that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
    /// The file that it stands in, if it is not of a request.
    file: Option<&'static str>,
}

impl Found<'_> {
    /// How the setting is called in messages.
    pub(super) fn called(&self) -> String {
        match self.file {
            None => format!("The generation setting `{}`", self.name),
            Some(file) => format!("The field `{}` of `{file}`", self.name),
        }
    }

    /// The error of a value that cannot be used.
    pub(super) fn wrong(&self, expected: &str) -> ModelError {
        configuration(format!("{} must be {expected}, not `{}`", self.called(), repr::repr(self.value)))
    }

    /// The value as a number. Requests may have it as a text, as they come from a command line.
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

/// A value as the number of a token.
pub(super) fn token(value: &Value) -> Option<u32> {
    value.as_i64().filter(|_| !matches!(value, Value::Bool(_))).and_then(|token| u32::try_from(token).ok())
}
