//! Runs by the steps of their checkpoints.

use std::path::{Path, PathBuf};

use fs_err as fs;
use lmeval_core::Diagnostic;
use lmeval_pycompat::{Dict, Value};

use super::step::{StepPattern, step_in};
use crate::Error;
use crate::read::{Run, parent};

/// A finished run of a checkpoint.
#[derive(Clone, Debug)]
pub struct StepRun {
    /// The step of the checkpoint.
    pub step: u64,
    /// The revision or the path that names the step.
    pub checkpoint: String,
    /// The results with their samples.
    pub run: Run,
}

/// Opens all runs of some files and folders, with the steps of their checkpoints.
///
/// The step comes from `pattern`, or from the revision of the model, its name, the `trainer_state.json` of its folder, or the folder of the
/// results.
pub fn steps_of(paths: &[PathBuf], pattern: Option<&StepPattern>) -> Result<Vec<StepRun>, Error> {
    let mut found = Vec::new();
    for path in paths {
        for run in Run::open_all(path)? {
            let names = names(&run);
            let step = match pattern {
                Some(pattern) => names.iter().find_map(|name| pattern.find(name)),
                None => names
                    .iter()
                    .find_map(|name| step_in(name))
                    .or_else(|| step_of_trainer(Path::new(names.get(1)?))),
            };
            let Some(step) = step else {
                let message = format!("The step of `{}` is unknown", run.path.display());
                let names: Vec<String> =
                    names.iter().filter(|name| !name.is_empty()).map(|name| format!("`{name}`")).collect();
                let hint = format!(
                    "It is looked for in {}; `--step-pattern 'run7-(\\d+)'` finds it in other names",
                    names.join(", ")
                );
                return Err(Diagnostic::new(message).hint(hint).into());
            };
            let checkpoint = names.iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
            found.push(StepRun { step, checkpoint, run });
        }
    }
    Ok(found)
}

/// Where a step may be named: the revision, the model, and the folder of the results.
fn names(run: &Run) -> Vec<String> {
    let argument = |name: &str| match run.section("config").and_then(|config| config.get_str("model_args"))? {
        Value::Dict(arguments) => text(arguments, name),
        Value::Str(text) => {
            let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        }
        _ => None,
    };
    let revision = argument("revision").filter(|revision| revision != "main").unwrap_or_default();
    let folder = parent(&run.path).display().to_string();
    vec![revision, argument("pretrained").unwrap_or_else(|| run.name.clone()), folder]
}

fn text(dict: &Dict, key: &str) -> Option<String> {
    dict.get_str(key)?.as_str().map(str::to_owned)
}

/// The step in the `trainer_state.json` that the trainer of `transformers` writes to a folder.
pub fn step_of_trainer(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("trainer_state.json")).ok()?;
    let state: serde_json::Value = serde_json::from_str(&text).ok()?;
    state.get("global_step")?.as_u64()
}
