//! Tests of the typed configuration: each rule, each failure.

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

/// A mapping from YAML text.
fn mapping(text: &str) -> Mapping {
    let value = Loader::for_directory("").load(text).expect("the YAML of a test is right").value;
    let Value::Dict(dict) = value else { panic!("{text} is not a mapping") };
    Mapping::from_dict(Dict::clone(&dict), &Origin::Inline)
}

fn try_task(text: &str) -> (Result<TaskConfig, Error>, Vec<Diagnostic>) {
    let mut warnings = Vec::new();
    let config = TaskConfig::from_mapping(&mapping(text), &mut warnings);
    (config, warnings)
}

/// A task that is right and gives no warnings.
fn task(text: &str) -> TaskConfig {
    let (config, warnings) = try_task(text);
    assert!(warnings.is_empty(), "{warnings:?}");
    config.unwrap_or_else(|error| panic!("{error} {:?}", error.hints()))
}

/// The failure of a task.
fn failure(text: &str) -> Error {
    match try_task(text).0 {
        Ok(_) => panic!("no failure: {text}"),
        Err(error) => error,
    }
}

/// A value from YAML text.
fn value(text: &str) -> Value {
    Loader::for_directory("").load(text).expect("the YAML of a test is right").value
}
