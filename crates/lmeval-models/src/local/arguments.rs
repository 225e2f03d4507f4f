//! Argument handling shared by the local models.

use std::fmt::Write as _;
use std::path::PathBuf;

use lmeval_core::{ModelError, ModelErrorKind, ModelSettings, nearest};

/// Arguments that only name the model in results.
const NAMING_ARGUMENTS: [&str; 2] = ["pretrained", "model"];

/// Rejects unknown arguments.
pub(super) fn check(settings: &ModelSettings, backend: &str, known: &[&str]) -> Result<(), ModelError> {
    for name in settings.args.keys().filter_map(|key| key.as_str()) {
        if known.contains(&name) || NAMING_ARGUMENTS.contains(&name) {
            continue;
        }
        let error = configuration(format!("The model `{backend}` has no argument `{name}`"));
        let near = nearest(name, known.iter().copied());
        let hint = if near.is_empty() {
            format!("Its arguments are `{}`", known.join("`, `"))
        } else {
            format!("Did you mean `{}`?", near.join("` or `"))
        };
        return Err(error.hint(hint));
    }
    Ok(())
}

/// The seed: the argument, else the run's, else 0.
pub(super) fn seed(settings: &ModelSettings) -> Result<i64, ModelError> {
    Ok(settings.integer("seed")?.or(settings.random_seed).unwrap_or(0))
}

/// Splits an argument at `;` into paths.
pub(super) fn paths(text: &str) -> Vec<PathBuf> {
    text.split(';').map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// A configuration error.
pub(super) fn configuration(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Configuration, message)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}
