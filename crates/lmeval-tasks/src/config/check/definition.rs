//! Checks of what a task must say, and of values that no run can use.

use lmeval_core::OutputType;
use lmeval_pycompat::{Dict, Value};

use super::{Checker, Report};
use crate::config::path::ConfigPath;
use crate::config::read::describe;
use crate::config::words::shortened;
use crate::error::{Error, ErrorKind};
use crate::source::Mapping;

/// The names of the most tokens to generate.
const MOST_TOKENS: [&str; 4] = ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"];

impl Checker<'_> {
    /// Documents come from a data set or a function, and are those of one of two splits.
    pub(super) fn data(&mut self) {
        let config = self.config;
        let task = ConfigPath::key("task");
        if config.custom_dataset.is_some() {
            return;
        }
        if config.dataset_path.is_none() {
            let message = format!("The task `{}` has no `dataset_path`", shortened(&config.task));
            let error = Error::new(ErrorKind::Value, message)
                .hint("Name a data set, or give a function that returns the documents as `custom_dataset`");
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

    /// A choice needs options.
    pub(super) fn choices(&mut self) {
        let config = self.config;
        let asks = config.output_type == OutputType::MultipleChoice && !config.multiple_inputs;
        if asks && config.doc_to_choice.is_none() {
            let error = Error::new(ErrorKind::Value, "A multiple-choice task needs `doc_to_choice`")
                .hint("Say where the options are, for example `doc_to_choice: choices`");
            self.error(&ConfigPath::key("output_type"), error);
        }
    }

    /// Settings of the generation that every back end reads.
    pub(super) fn generation(&mut self) {
        let config = self.config;
        if config.output_type != OutputType::GenerateUntil {
            return;
        }
        let path = ConfigPath::key("generation_kwargs");
        for key in MOST_TOKENS {
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
                format!("`{path}` must be a bool, not {}, which counts as {truth}", describe(value)),
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

/// Whether `int(value)` is a number in Python, or the value counts as absent.
fn is_token_count(value: &Value) -> bool {
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) => true,
        Value::Float(number) => number.is_finite(),
        Value::Str(text) => text.trim().replace('_', "").parse::<i64>().is_ok(),
        _ => false,
    }
}

/// Reports every `!function` that does not say in which module it is.
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
            let message = format!("`{path}`: `!function {}` names no module", shortened(&function.reference));
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
