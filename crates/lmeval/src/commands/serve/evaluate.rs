//! A run that the caller wants.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use lmeval::environment;
use lmeval::settings::RunSettings;
use lmeval_core::{Diagnostic, Model, secrets};
use lmeval_engine::{EvaluateOptions, Evaluated};
use lmeval_host::{PythonHost, PythonModel, PythonModelSettings, PythonOptions};
use lmeval_pycompat::Value;
use lmeval_report::{ModelName, Moment, RunFacts, result_object};

use super::{Request, tasks};
use crate::commands::run as command;
use crate::printer::Printer;
use crate::python;
use crate::run::model;
use crate::run::output::{self, Start};

/// Evaluates, and gives the result object together with what files say beside it.
pub(super) fn run(request: &Request, printer: &mut Printer) -> Result<Value> {
    let (moment, began) = (Moment::now(), Instant::now());
    let settings = RunSettings::of_caller(&request.dict("settings"))?;
    secrets::learn(&shown(request, "model_args").unwrap_or_default());
    if settings.quiet {
        printer.notes().be_quiet();
    }
    if settings.check_integrity {
        let told = Diagnostic::new("`check_integrity`: there are no self-tests of tasks");
        bail!(told.hint("`lm-eval validate --tasks …` checks definitions"));
    }
    for note in &settings.notes {
        printer.notes().info(note);
    }
    let hash_media = environment::hash_media()?;
    let (tasks, roots) = tasks::of_run(request, printer)?;
    let python = python(request, &settings, &roots, printer)?;
    let model = model(request, &settings, &python, printer)?;
    let model_args = shown(request, "model_args").unwrap_or_default();
    let model_name = ModelName::of(&settings.model, &model_args, settings.seeds[0]);
    let files = command::files(&settings, &model_name, moment)?;
    let journal = command::journal(&settings, &model_name, files.as_ref().map(|(layout, _)| layout), &*model);
    // The caller writes files itself, when it wants them.
    let start = Start { moment, began, model_name, files: None, hash_media };
    let adjust = |options: &mut EvaluateOptions| {
        options.keep_samples = true;
        options.data.python = Some(PythonHost::new(python));
        // Nobody else sets it.
        let _ = request.cancel.set(options.cancel.clone());
    };
    let (evaluation, _, _) = command::evaluate_tasks(
        &settings,
        &start,
        &model,
        (tasks, &roots),
        journal.as_ref(),
        printer,
        adjust,
    )?;
    for warning in &evaluation.results.warnings {
        printer.note(&format!("warning: {warning}"));
    }
    output::tell_audit(&evaluation, printer);
    if !evaluation.failures.is_empty() {
        output::tell_failures(&evaluation.failures, journal.is_some(), printer);
    }
    let facts = facts(request, &settings, &start, &*model, &evaluation);
    let configs = output::configs(&settings, &evaluation);
    let results = result_object(&evaluation.results, &configs, &facts);
    let tracked = Value::dict([
        ("model_source", Value::str(facts.model_source.as_str())),
        ("model_name", Value::str(facts.model_name.name.as_str())),
        ("model_name_sanitized", Value::str(facts.model_name.sanitized.as_str())),
        ("chat_template", Value::from(facts.chat_template.clone())),
    ]);
    // The caller may write it to files, as the command does.
    let results = secrets::mask_strings(Value::from(results), secrets::mask_data);
    Ok(Value::dict([("results", results), ("tracked", tracked)]))
}

/// What runs the Python functions of the tasks; those that exist in the caller's process run there.
pub(super) fn python(
    request: &Request,
    settings: &RunSettings,
    roots: &[PathBuf],
    printer: &Printer,
) -> Result<PythonOptions> {
    request.use_registered();
    let options = python::options(settings.python.as_deref(), &settings.plugins, roots, &printer.notes())?;
    Ok(PythonOptions {
        caller: Some(Arc::clone(&request.caller)),
        run_unsafe_code: settings.confirm_run_unsafe_code,
        ..options
    })
}

/// The model: one that the caller has, or the one of a name.
fn model(
    request: &Request,
    settings: &RunSettings,
    python: &PythonOptions,
    printer: &Printer,
) -> Result<Arc<dyn Model>> {
    match live_model(request, settings)? {
        Some(model) => Ok(model),
        None => model::create(settings, python, &printer.notes()),
    }
}

/// The model that the caller has, if it has one.
pub(super) fn live_model(request: &Request, settings: &RunSettings) -> Result<Option<Arc<dyn Model>>> {
    let Value::Function(live) = request.part("live_model") else { return Ok(None) };
    let [random, numpy, torch, _] = settings.seeds;
    let made = PythonModelSettings {
        args: settings.model_args.clone(),
        seeds: [random, numpy, torch],
        rolling_context: settings.dialect.rolling_context,
        ..PythonModelSettings::default()
    };
    Ok(Some(PythonModel::of_caller(Arc::clone(&request.caller), &live, &made)?))
}

/// What the caller gave where results show it as it was given.
fn shown(request: &Request, name: &str) -> Option<Value> {
    request.dict("shown").get_str(name).cloned()
}

fn facts(
    request: &Request,
    settings: &RunSettings,
    start: &Start,
    model: &dyn Model,
    evaluation: &Evaluated,
) -> RunFacts {
    let facts = output::facts(settings, start, model, evaluation);
    let text = |name: &str, default: String| {
        shown(request, name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or(default)
    };
    // What was used, where it is known; the 0.4 line writes down what was asked for.
    let device = match settings.dialect.name {
        "0.4" => shown(request, "device").unwrap_or(facts.device),
        _ if facts.device.is_none() => shown(request, "device").unwrap_or_default(),
        _ => facts.device,
    };
    RunFacts {
        model: text("model", facts.model),
        model_source: text("model_source", facts.model_source),
        model_args: shown(request, "model_args").unwrap_or(facts.model_args),
        device,
        batch_size: shown(request, "batch_size").unwrap_or(facts.batch_size),
        gen_kwargs: shown(request, "gen_kwargs").unwrap_or(facts.gen_kwargs),
        bootstrap_iters: shown(request, "bootstrap_iters").unwrap_or(facts.bootstrap_iters),
        ..facts
    }
}
