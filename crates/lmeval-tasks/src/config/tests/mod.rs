//! Tests of the typed configuration: every rule and every error.

mod checks;
mod errors;
mod groups;
mod normalisation;
mod odd_values;

use lmeval_pycompat::yaml::Loader;
use lmeval_pycompat::{Dict, Value};

use super::TaskConfig;
use crate::error::{Diagnostic, Error};
use crate::source::{Mapping, Origin};

/// Parses a mapping from YAML.
fn mapping(text: &str) -> Mapping {
    let value = Loader::for_directory("").load(text).expect("the YAML of a test is valid").value;
    let Value::Dict(dict) = value else { panic!("{text} is not a mapping") };
    Mapping::from_dict(Dict::clone(&dict), &Origin::Inline)
}

fn try_task(text: &str) -> (Result<TaskConfig, Error>, Vec<Diagnostic>) {
    let mut warnings = Vec::new();
    let config = TaskConfig::from_mapping(&mapping(text), &mut warnings);
    (config, warnings)
}

/// A valid task without warnings.
fn task(text: &str) -> TaskConfig {
    let (config, warnings) = try_task(text);
    assert!(warnings.is_empty(), "{warnings:?}");
    config.unwrap_or_else(|error| panic!("{error} {:?}", error.hints()))
}

/// The error of an invalid task.
fn failure(text: &str) -> Error {
    match try_task(text).0 {
        Ok(_) => panic!("no error: {text}"),
        Err(error) => error,
    }
}

/// Parses a value from YAML.
fn value(text: &str) -> Value {
    Loader::for_directory("").load(text).expect("the YAML of a test is valid").value
}
