//! Creates the model of a run: built in, registered by a plug-in, or from the original package.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_core::{Diagnostic, Model, ModelSettings};
use lmeval_host::{
    PoolOptions, PythonModel, PythonModelSettings, PythonOptions, RegisteredModels, RunTls, Token, WorkerPool,
};
use lmeval_pycompat::{Dict, Function, Value};
use lmeval_report::lm_eval_version;
use lmeval_scoring::registry::{Kind, ModelKind, Registered};

use crate::environment;
use crate::printer::Notes;
use crate::progress::Downloads;
use crate::run::torch::{ENGINE, Engine, WITH_PROCESSORS, with_processor};
use crate::settings::{RunSettings, WorkerSettings, worker_setup};

/// Prefix of model names that belong to the original package.
const ORIGINAL: &str = "lm_eval:";

/// Creates the model named by the settings. With `has_answers`, a server is not contacted before a request needs it.
pub(crate) fn create(
    settings: &RunSettings,
    options: &PythonOptions,
    notes: &Notes,
    has_answers: bool,
) -> Result<Arc<dyn Model>> {
    let name = settings.model.name.as_str();
    if let Some(workers) = &settings.model.workers {
        return Ok(Arc::new(pool(settings, workers, notes)?));
    }
    if let Some(caller) = options.caller.as_ref().filter(|caller| caller.has_registered("model", name)) {
        let class = registered_class(name);
        let made = PythonModel::of_caller(Arc::clone(caller), &class, &python_model_settings(settings))?;
        warn_ignored_settings(&made, settings, notes);
        return Ok(made);
    }
    if let Some((rank, size)) = environment::later_process() {
        let message = format!(
            "This is process {rank} of {size} started by a launcher, and each would evaluate everything"
        );
        bail!(Diagnostic::new(message).hint(format!(
            "Start `lm-eval` without the launcher; use `--model_args data_parallel={size}` for several devices"
        )));
    }
    if let Some(name) = name.strip_prefix(ORIGINAL) {
        notes.info(&format!(
            "Importing the Python package `lm_eval` for its model `{name}`; this takes a few seconds"
        ));
        let made = PythonModel::original(name, options, &python_model_settings(settings))?;
        warn_ignored_settings(&made, settings, notes);
        return Ok(made);
    }
    let mut registry = lmeval::registry();
    let is_built_in = registry.models.get(name).is_some();
    // A plug-in's model wins over a built-in one; without plug-ins, no Python is started for built-in names.
    let registered = if is_built_in && settings.python.plugins().is_empty() {
        None
    } else if settings.python.plugins().is_empty() {
        // Without Python, an unknown name is reported as unknown.
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
                notes.info(&format!("Using the plug-in's model `{name}` instead of the built-in one"));
            }
            let made = registered.create(name, &python_model_settings(settings))?;
            warn_ignored_settings(&made, settings, notes);
            Ok(made)
        }
        None => {
            let engine = Engine::of(settings)?;
            // Without `--device`, `HFLM` chooses one itself.
            let python = PythonModelSettings {
                device: settings.model.device.clone(),
                ..python_model_settings(settings)
            };
            if WITH_PROCESSORS.contains(&name) {
                return with_processor(name, &python, options, notes);
            }
            let mut settings =
                ModelSettings { defer_contact: has_answers, ..back_end_settings(settings, notes) };
            let Some(engine) = engine else { return Ok(registry.model(name, &settings)?) };
            settings.args.remove_str(ENGINE);
            engine.create(|| registry.model(name, &settings), &python, options, notes)
        }
    }
}

/// Waits for workers that compute the model.
fn pool(settings: &RunSettings, workers: &WorkerSettings, notes: &Notes) -> Result<WorkerPool> {
    let name = settings.model.name.as_str();
    if lmeval::registry().models.get(name).is_some_and(|entry| entry.facts.is_served)
        && settings.python.plugins().is_empty()
    {
        let diagnostic = Diagnostic::new(format!("`--workers` is not for `{name}`, which a server computes"));
        bail!(diagnostic.hint("Leave it out; `base_url` takes the addresses of several servers"));
    }
    let options = PoolOptions {
        listen: workers.listen.clone(),
        token: Token::read(&workers.token_file)?,
        tls: workers.tls.as_ref().map(|[certificate, key]| RunTls::read(certificate, key)).transpose()?,
        stall: workers.stall,
        version: lm_eval_version().to_owned(),
        setup: worker_setup(&settings.given),
    };
    let notes = notes.clone();
    Ok(WorkerPool::listen(options, Arc::new(move |level, text| notes.line(level, text)))?)
}

/// The reference that stands for a class registered by Python code.
fn registered_class(name: &str) -> Function {
    Function { directory: String::new(), reference: format!("registry:model/{name}") }
}

/// Creates a built-in model.
pub(crate) fn built_in(settings: &RunSettings, notes: &Notes) -> Result<Arc<dyn Model>> {
    Ok(lmeval::registry().model(&settings.model.name, &back_end_settings(settings, notes))?)
}

fn python_model_settings(settings: &RunSettings) -> PythonModelSettings {
    let [random, numpy, torch, _] = settings.prompts.seeds;
    PythonModelSettings {
        args: settings.model.args.clone(),
        batch_size: Some(settings.model.batch_size.clone()),
        max_batch_size: settings.model.max_batch_size,
        device: settings.model.device().map(str::to_owned),
        seeds: [random, numpy, torch],
        rolling_context: settings.dialect.rolling_context,
    }
}

fn back_end_settings(settings: &RunSettings, notes: &Notes) -> ModelSettings {
    ModelSettings { downloads: Some(Arc::new(Downloads::new(notes.clone()))), ..settings.model_settings() }
}

/// Warns about flags that the model ignores, unless they have their default.
fn warn_ignored_settings(model: &PythonModel, settings: &RunSettings, notes: &Notes) {
    for name in model.ignored_settings() {
        let is_default = match name.as_str() {
            "batch_size" => settings.model.batch_size == Value::Int(1),
            "device" => settings.model.device.is_none(),
            _ => false,
        };
        if !is_default {
            notes.info(&format!(
                "`--{name}` has no effect: `{}` does not take this argument",
                model.class_name()
            ));
        }
    }
}
