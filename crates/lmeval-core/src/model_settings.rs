//! Settings from which a model is created.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lmeval_pycompat::{Dict, Value, repr};

use crate::dialect::Dialect;
use crate::downloads::DownloadProgress;
use crate::model_error::{ModelError, ModelErrorKind};
use crate::nearest;

/// Arguments whose values may be secrets; redacted in debug output.
const SECRET: [&str; 4] = ["header", "auth_token", "api_key", "base_url"];

/// Everything a model constructor receives.
#[derive(Clone, Default)]
pub struct ModelSettings {
    /// `--model_args`, parsed.
    pub args: Dict,
    /// `--batch_size`: a number, or a string such as `auto`.
    pub batch_size: Option<Value>,
    /// `--max_batch_size`.
    pub max_batch_size: Option<i64>,
    /// `--device`.
    pub device: Option<String>,
    /// The seed of models that sample.
    pub random_seed: Option<i64>,
    /// The rules of the 0.5 or the 0.4 line.
    pub dialect: Dialect,
    /// `--trust_remote_code`: the caller wants the code that comes with a checkpoint to run.
    pub trust_remote_code: bool,
    /// Whether the constructor leaves questions to a server for later, when the first request needs the answers: most
    /// answers may be saved.
    pub defer_contact: bool,
    /// Receives progress of downloads of weights and tokenizers.
    pub downloads: Option<Arc<dyn DownloadProgress>>,
    /// The paths for a model that runs in a process of its own.
    pub process: ProcessPaths,
    /// The arguments that the constructor has asked for so far.
    pub asked: AskedArguments,
}

/// The paths that a model needs to run in a process of its own, such as a server that the run starts.
#[derive(Clone, Debug, Default)]
pub struct ProcessPaths {
    /// The Python interpreter.
    pub python: Option<PathBuf>,
    /// The folder for data that later runs can reuse.
    pub cache: Option<PathBuf>,
    /// The folder for logs: that of the run's other files.
    pub logs: Option<PathBuf>,
}

/// The names of arguments that a model's constructor has asked for, given or not.
#[derive(Clone, Debug, Default)]
pub struct AskedArguments(Arc<Mutex<BTreeSet<String>>>);

impl AskedArguments {
    fn note(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) {
            names.insert(name.to_owned());
        }
    }
}

impl fmt::Debug for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut args = self.args.clone();
        for name in SECRET {
            if let Some(value) = args.get_str_mut(name) {
                *value = Value::str("…");
            }
        }
        f.debug_struct("ModelSettings")
            .field("args", &repr::repr(&Value::Dict(Arc::new(args))))
            .field("batch_size", &self.batch_size)
            .field("dialect", &self.dialect.name)
            .finish_non_exhaustive()
    }
}

impl ModelSettings {
    /// Settings with only arguments.
    pub fn from_args(args: Dict) -> Self {
        Self { args, ..Self::default() }
    }

    /// An argument, unless it is missing or `None`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.get_or_none(name).filter(|value| !value.is_none())
    }

    /// An argument, which may be `None`, unless it is missing.
    pub fn get_or_none(&self, name: &str) -> Option<&Value> {
        self.asked.note(name);
        self.args.get_str(name)
    }

    /// Arguments that were given but never asked for, except those in `accepted`, each with the nearest names.
    pub fn unknown(&self, accepted: &[&str]) -> Vec<(String, Vec<String>)> {
        let asked = self.asked.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = || asked.iter().map(String::as_str).chain(accepted.iter().copied());
        let given = self.args.keys().map(repr::str);
        let unknown = given.filter(|name| !known().any(|known| known == name));
        unknown
            .map(|name| {
                let near = nearest(&name, known()).into_iter().map(str::to_owned).collect();
                (name, near)
            })
            .collect()
    }

    /// A string argument; numbers are converted, so that `model=42` is a name.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(repr::str)
    }

    /// A boolean argument, or the default.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, ModelError> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::Int(number @ (0 | 1))) => Ok(*number == 1),
            Some(other) => Err(Self::wrong(name, "`True` or `False`", other)),
        }
    }

    /// An integer argument.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ModelError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Float(number)) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Ok(Some(*number as i64))
            }
            Some(other) => Err(Self::wrong(name, "a whole number", other)),
        }
    }

    /// A float argument.
    pub fn number(&self, name: &str) -> Result<Option<f64>, ModelError> {
        match self.get(name) {
            None => Ok(None),
            Some(value @ (Value::Int(_) | Value::Float(_))) => Ok(value.to_f64()),
            Some(other) => Err(Self::wrong(name, "a number", other)),
        }
    }

    /// A string argument that must be present; `example` is shown in the error.
    pub fn required(&self, name: &str, example: &str) -> Result<String, ModelError> {
        self.text(name).ok_or_else(|| {
            ModelError::new(ModelErrorKind::Configuration, format!("The model needs the argument `{name}`"))
                .hint(format!("Give it as in `--model_args {name}={example}`"))
        })
    }

    /// The error of an argument with a value of the wrong type.
    pub fn wrong(name: &str, expected: &str, found: &Value) -> ModelError {
        let message = format!("The model argument `{name}` must be {expected}, not `{}`", repr::repr(found));
        ModelError::new(ModelErrorKind::Configuration, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_secrets() {
        let mut args = Dict::new();
        args.insert("model", "m");
        args.insert("auth_token", "sk-secret");
        args.insert("header", Value::dict([("Authorization", Value::str("Bearer sk-secret"))]));
        let shown = format!("{:?}", ModelSettings::from_args(args));
        assert!(shown.contains("'model': 'm'") && !shown.contains("sk-secret"), "{shown}");
    }
}
