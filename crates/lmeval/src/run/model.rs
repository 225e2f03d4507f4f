//! Which model a run is about: one of this program, one that a plug-in registers, or one of the original package.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval::environment;
use lmeval::settings::RunSettings;
use lmeval_core::registry::{Kind, ModelKind, Registered};
use lmeval_core::{Diagnostic, Model, ModelSettings};
use lmeval_host::{PythonModel, PythonModelSettings, PythonOptions, RegisteredModels};
use lmeval_pycompat::{Dict, Function, Value};

use crate::printer::Notes;
use crate::progress::Downloads;

/// The start of names of models of the original package.
const ORIGINAL: &str = "lm_eval:";

/// Makes the model that the settings name.
pub(crate) fn create(
    settings: &RunSettings,
    options: &PythonOptions,
    notes: &Notes,
) -> Result<Arc<dyn Model>> {
    let name = settings.model.as_str();
    if let Some(caller) = options.caller.as_ref().filter(|caller| caller.has_registered("model", name)) {
        let class = registered_class(name);
        let made = PythonModel::of_caller(Arc::clone(caller), &class, &of_python(settings))?;
        tell_ignored(&made, settings, notes);
        return Ok(made);
    }
    if let Some((rank, size)) = environment::later_process() {
        let message =
            format!("This is process {rank} of {size} of a launcher, and each would evaluate everything");
        bail!(Diagnostic::new(message).hint(format!(
            "Start `lm-eval` without the launcher; `--model_args data_parallel={size}` uses several devices"
        )));
    }
    if let Some(name) = name.strip_prefix(ORIGINAL) {
        notes.info(&format!(
            "Importing the package `lm_eval` for its model `{name}`, which takes some seconds"
        ));
        let made = PythonModel::original(name, options, &of_python(settings))?;
        tell_ignored(&made, settings, notes);
        return Ok(made);
    }
    let mut registry = lmeval::registry();
    let is_built_in = registry.models.get(name).is_some();
    // What a plug-in registers wins over what is built in; without plug-ins, no Python is started for the latter.
    let registered = if is_built_in && settings.plugins.is_empty() {
        None
    } else if settings.plugins.is_empty() {
        // A name that nobody knows stays unknown without Python.
        RegisteredModels::start_if_possible(options)?
    } else {
        Some(RegisteredModels::start(options)?)
    };
    for other in registered.iter().flat_map(RegisteredModels::names) {
        let class = Arc::new(registered_class(other));
        registry.add_python(ModelKind::NAME, other, Registered { function: class, facts: Dict::new() });
    }
    match registered.filter(|_| registry.models.python(name).is_some()) {
        Some(registered) => {
            if is_built_in {
                notes.info(&format!("The model `{name}` of a plug-in replaces the built-in one"));
            }
            let made = registered.create(name, &of_python(settings))?;
            tell_ignored(&made, settings, notes);
            Ok(made)
        }
        None => Ok(registry.model(name, &of_back_end(settings, notes))?),
    }
}

/// What stands for a class that Python code registered.
fn registered_class(name: &str) -> Function {
    Function { directory: String::new(), reference: format!("registry:model/{name}") }
}

/// Makes the model that the settings name, which must be one of this program.
pub(crate) fn built_in(settings: &RunSettings, notes: &Notes) -> Result<Arc<dyn Model>> {
    Ok(lmeval::registry().model(&settings.model, &of_back_end(settings, notes))?)
}

fn of_python(settings: &RunSettings) -> PythonModelSettings {
    let [random, numpy, torch, _] = settings.seeds;
    PythonModelSettings {
        args: settings.model_args.clone(),
        batch_size: Some(settings.batch_size.clone()),
        max_batch_size: settings.max_batch_size,
        device: settings.device().map(str::to_owned),
        seeds: [random, numpy, torch],
        rolling_context: settings.dialect.rolling_context,
    }
}

fn of_back_end(settings: &RunSettings, notes: &Notes) -> ModelSettings {
    ModelSettings { downloads: Some(Arc::new(Downloads::new(notes.clone()))), ..settings.model_settings() }
}

/// Says which flags the model takes no argument for; defaults that it does not want are nobody's concern.
fn tell_ignored(model: &PythonModel, settings: &RunSettings, notes: &Notes) {
    for name in model.ignored_settings() {
        let is_default = match name.as_str() {
            "batch_size" => settings.batch_size == Value::Int(1),
            "device" => settings.device.is_none(),
            _ => false,
        };
        if !is_default {
            notes.info(&format!("`--{name}` has no effect: `{}` takes no such argument", model.class_name()));
        }
    }
}
