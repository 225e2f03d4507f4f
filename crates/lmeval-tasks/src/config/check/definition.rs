//! Checks for required keys and unusable values.

use lmeval_core::OutputType;
use lmeval_pycompat::{Dict, Value};

use super::{Checker, Report};
use crate::config::path::ConfigPath;
use crate::config::read::describe;
use crate::config::words::shortened;
use crate::error::{Error, ErrorKind};
use crate::source::Mapping;

/// The aliases of the maximum number of tokens to generate.
const MAX_TOKENS_KEYS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

impl Checker<'_> {
    /// Checks that there are documents: a dataset or a function, and a test or validation split.
    pub(super) fn data(&mut self) {
        let config = self.config;
        let task = ConfigPath::key("task");
        if config.custom_dataset.is_some() {
            return;
        }
        if config.dataset_path.is_none() {
            let message = format!("The task `{}` has no `dataset_path`", shortened(&config.task));
            let error = Error::new(ErrorKind::Value, message)
                .hint("Name a dataset, or give a function that returns the documents as `custom_dataset`");
            self.error(&task, error);
        }
        if config.test_split.is_none() && config.validation_split.is_none() {
            let message = format!(
                "The task `{}` has neither `test_split` nor `validation_split`, so there is nothing to evaluate",
                shortened(&config.task)
            );
            self.error(&task, Error::new(ErrorKind::Value, message));
        }
    }

    /// Checks that a multiple-choice task has options.
    pub(super) fn choices(&mut self) {
        let config = self.config;
        let asks = config.output_type == OutputType::MultipleChoice && !config.multiple_inputs;
        if asks && config.doc_to_choice.is_none() {
            let error = Error::new(ErrorKind::Value, "A multiple-choice task needs `doc_to_choice`")
                .hint("Name the column of options, for example `doc_to_choice: choices`");
            self.error(&ConfigPath::key("output_type"), error);
        }
    }

    /// Checks the generation settings that every backend reads.
    pub(super) fn generation(&mut self) {
        let config = self.config;
        if config.output_type != OutputType::GenerateUntil {
            return;
        }
        let path = ConfigPath::key("generation_kwargs");
        for key in MAX_TOKENS_KEYS {
            if let Some(value) = config.generation_kwargs.get(key)
                && !is_token_count(value)
            {
                let path = path.then(key);
                let message = match value {
                    Value::BigInt(number) => {
                        format!("`{path}` is too large: `{}`", shortened(&number.to_string()))
                    }
                    _ => format!("`{path}` must be an int, not {}", describe(value)),
                };
                self.error(&path, Error::new(ErrorKind::Type, message));
            }
        }
        if let Some(value) = config.generation_kwargs.get("do_sample")
            && !matches!(value, Value::None | Value::Bool(_) | Value::Int(_))
        {
            let path = path.then("do_sample");
            let truth = if value.is_truthy() { "True" } else { "False" };
            self.warn(
                &path,
                format!("`{path}` must be a bool, not {}, which is read as {truth}", describe(value)),
            );
        }
        self.stops(&path.then("until"));
    }

    fn stops(&mut self, path: &ConfigPath) {
        let (wrong, value) = match self.config.generation_kwargs.get("until") {
            None | Some(Value::None | Value::Str(_)) => return,
            Some(Value::List(items)) => {
                let is_wrong = |item: &Value| !matches!(item, Value::Str(_) | Value::None);
                let Some(position) = items.iter().position(is_wrong) else { return };
                (path.then(position), items[position].clone())
            }
            Some(other) => (path.clone(), other.clone()),
        };
        let expected = if wrong == *path { "a str or a list of strs" } else { "a str" };
        let message = format!("`{wrong}` must be {expected}, not {}", describe(&value));
        self.error(&wrong, Error::new(ErrorKind::Type, message));
    }
}

/// Whether Python's `int(value)` succeeds, or the value is treated as absent.
fn is_token_count(value: &Value) -> bool {
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) => true,
        Value::Float(number) => number.is_finite(),
        Value::Str(text) => text.trim().replace('_', "").parse::<i64>().is_ok(),
        _ => false,
    }
}

/// Reports every `!function` without a module.
pub fn functions(mapping: &Mapping, report: &mut Report) {
    for (key, value) in mapping.values().iter() {
        if let Some(key) = key.as_str() {
            functions_in(mapping, &ConfigPath::key(key), value, report);
        }
    }
}

fn functions_in(mapping: &Mapping, path: &ConfigPath, value: &Value, report: &mut Report) {
    match value {
        Value::Function(function) if function.split().is_none() => {
            let message =
                format!("`{path}`: `!function {}` does not name a module", shortened(&function.reference));
            let error = Error::new(ErrorKind::Value, message)
                .at(path.locate(mapping))
                .hint("Write `!function module.name`");
            report.errors.push(error.into_diagnostic());
        }
        Value::List(items) | Value::Tuple(items) => {
            for (index, item) in items.iter().enumerate() {
                functions_in(mapping, &path.then(index), item, report);
            }
        }
        Value::Dict(dict) => functions_below(mapping, path, dict, report),
        _ => {}
    }
}

fn functions_below(mapping: &Mapping, path: &ConfigPath, dict: &Dict, report: &mut Report) {
    for (key, value) in dict.iter() {
        match key.as_str() {
            Some(key) => functions_in(mapping, &path.then(key), value, report),
            None => functions_in(mapping, path, value, report),
        }
    }
}
