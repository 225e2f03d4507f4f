//! Runs an evaluation for a Python caller.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use lmeval::environment;
use lmeval::settings::RunSettings;
use lmeval_core::{Diagnostic, Model, secrets};
use lmeval_engine::{EvaluateOptions, Evaluated, JudgeModel};
use lmeval_host::{PythonHost, PythonModel, PythonModelSettings, PythonOptions};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_report::{ModelName, Moment, RunFacts, result_object};

use super::{Request, tasks};
use crate::commands::run as command;
use crate::log;
use crate::printer::Printer;
use crate::python;
use crate::run::judges::{self, Prices};
use crate::run::model;
use crate::run::output::{self, Start};

/// Evaluates, and returns the result object with the facts that result files add to it.
pub(super) fn run(request: &Request, printer: &mut Printer) -> Result<Value> {
    let (moment, began) = (Moment::now(), Instant::now());
    let settings = RunSettings::from_python(&request.dict("settings"))?;
    secrets::learn(&as_given(request, "model_args").unwrap_or_default());
    if settings.quiet {
        printer.notes().be_quiet();
    }
    log::start(settings.log, &printer.notes())?;
    if settings.check_integrity {
        let diagnostic = Diagnostic::new("`check_integrity`: tasks have no self-tests");
        bail!(diagnostic.hint("`lm-eval validate --tasks …` checks definitions"));
    }
    if !settings.fail_under.is_empty() || !settings.trackers.is_empty() {
        let diagnostic = Diagnostic::new("`fail_under` and trackers are settings of `lm-eval run`");
        bail!(
            diagnostic.hint("Compare the scores that this call returns, or log them with `lm_eval.loggers`")
        );
    }
    for note in &settings.notes {
        printer.notes().info(note);
    }
    let hash_media = environment::hash_media()?;
    let (tasks, roots) = tasks::of_run(request, printer)?;
    let python = python(request, &settings, &roots, printer)?;
    let model_args = as_given(request, "model_args").unwrap_or_default();
    let model_name = ModelName::of(&settings.model, &model_args, settings.seeds[0]);
    let has_answers = command::has_answers(&settings, &model_name);
    let model = model(request, &settings, &python, has_answers, printer)?;
    let files = command::files(&settings, &model_name, moment)?;
    let judges = judges(request, &settings, &python, has_answers, printer)?;
    let baseline = judges::baseline(&settings)?;
    let prices = settings.prices.as_deref().map(Prices::read).transpose()?;
    let layout = files.as_ref().map(|(layout, _)| layout);
    let journal = command::journal(&settings, &model_name, layout, &*model, &judges);
    // The caller writes files itself.
    let start = Start { moment, began, model_name, files: None, hash_media, observer: None };
    let adjust = |options: &mut EvaluateOptions| {
        options.keep_samples = true;
        (options.judges, options.baseline) = (judges, baseline);
        options.data.python = Some(PythonHost::new(python));
        // Set only here.
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
    let mut evaluation = evaluation?;
    judges::add_costs(&mut evaluation, prices.as_ref());
    for warning in &evaluation.results.warnings {
        printer.note(&format!("warning: {warning}"));
    }
    output::repeat_warnings(&*model, printer);
    output::report_unusual_answers(&evaluation, printer);
    let mut facts = facts(request, &settings, &start, &*model, &evaluation);
    facts.model_usage = judges::model_usage(&settings, evaluation.usage, prices.as_ref());
    judges::report_model(&facts.model_usage, printer);
    judges::report(&evaluation, printer);
    if !evaluation.failures.is_empty() {
        output::report_failures(&evaluation.failures, journal.is_some(), printer);
    }
    let configs = output::configs(&settings, &evaluation);
    let results = result_object(&evaluation.results, &configs, &facts);
    let tracked = Value::dict([
        ("model_source", Value::str(facts.model_source.as_str())),
        ("model_name", Value::str(facts.model_name.name.as_str())),
        ("model_name_sanitized", Value::str(facts.model_name.sanitized.as_str())),
        ("chat_template", Value::from(facts.chat_template.clone())),
    ]);
    // The caller may write the results to files, like the command.
    let results = secrets::mask_strings(Value::from(results), secrets::mask_data);
    Ok(Value::dict([("results", results), ("tracked", tracked)]))
}

/// Options for the Python functions of tasks; functions of the caller's process run there.
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

/// The caller's model, or one created by name.
fn model(
    request: &Request,
    settings: &RunSettings,
    python: &PythonOptions,
    has_answers: bool,
    printer: &Printer,
) -> Result<Arc<dyn Model>> {
    match live_model(request, settings)? {
        Some(model) => Ok(model),
        None => model::create(settings, python, &printer.notes(), has_answers),
    }
}

/// The judges that the settings bind, then those that the caller passed as objects.
fn judges(
    request: &Request,
    settings: &RunSettings,
    python: &PythonOptions,
    has_answers: bool,
    printer: &Printer,
) -> Result<Vec<JudgeModel>> {
    let mut judges = judges::create(settings, python, &printer.notes(), has_answers)?;
    for (role, live) in request.dict("live_judges").iter() {
        let Value::Function(live) = live else { continue };
        let made = PythonModelSettings {
            rolling_context: settings.dialect.rolling_context,
            ..PythonModelSettings::default()
        };
        let model = PythonModel::of_caller(Arc::clone(&request.caller), live, &made)?;
        let class = live.reference.rsplit('.').next().unwrap_or_default();
        let shown = Dict::from_iter([(Value::str("model"), Value::str(class))]);
        judges.push(JudgeModel { role: repr::str(role).into(), model, settings: shown, in_caller: true });
    }
    Ok(judges)
}

/// The caller's model, if it passed one.
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

/// A value as the caller gave it, for showing in results.
fn as_given(request: &Request, name: &str) -> Option<Value> {
    request.dict("shown").get_str(name).cloned()
}

fn facts(
    request: &Request,
    settings: &RunSettings,
    start: &Start,
    model: &dyn Model,
    evaluation: &Evaluated,
) -> RunFacts {
    let facts = output::facts(settings, start, model.facts(), evaluation);
    let text = |name: &str, default: String| {
        as_given(request, name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or(default)
    };
    // The actual device if known; 0.4 records the requested one.
    let device = match settings.dialect.name {
        "0.4" => as_given(request, "device").unwrap_or(facts.device),
        _ if facts.device.is_none() => as_given(request, "device").unwrap_or_default(),
        _ => facts.device,
    };
    RunFacts {
        model: text("model", facts.model),
        model_source: text("model_source", facts.model_source),
        model_args: as_given(request, "model_args").unwrap_or(facts.model_args),
        device,
        batch_size: as_given(request, "batch_size").unwrap_or(facts.batch_size),
        gen_kwargs: as_given(request, "gen_kwargs").unwrap_or(facts.gen_kwargs),
        bootstrap_iters: as_given(request, "bootstrap_iters").unwrap_or(facts.bootstrap_iters),
        ..facts
    }
}
