//! Runs an evaluation for a Python caller.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_core::{Diagnostic, Model, secrets};
use lmeval_engine::{Evaluated, JudgeModel};
use lmeval_host::{PythonModel, PythonModelSettings};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_report::{RunFacts, result_object};

use super::{Request, tasks};
use crate::log;
use crate::printer::Printer;
use crate::run::session::{Clock, Program, Session};
use crate::run::{judges, output};
use crate::settings::RunSettings;

/// Evaluates, and returns the result object with the facts that result files add to it.
pub(super) fn run(request: &Request, printer: &mut Printer) -> Result<Value> {
    let clock = Clock::start();
    let settings = RunSettings::from_python(&request.dict("settings"))?;
    secrets::learn(&as_given(request, "model_args").unwrap_or_default());
    if settings.output.quiet {
        printer.notes().be_quiet();
    }
    log::start(settings.output.log, &printer.notes())?;
    if settings.scoring.check_integrity {
        let diagnostic = Diagnostic::new("`check_integrity`: tasks have no self-tests");
        bail!(diagnostic.hint("`lm-eval validate --tasks …` checks definitions"));
    }
    if !settings.scoring.fail_under.is_empty() || !settings.output.trackers.is_empty() {
        let diagnostic = Diagnostic::new("`fail_under` and trackers are settings of `lm-eval run`");
        bail!(
            diagnostic.hint("Compare the scores that this call returns, or log them with `lm_eval.loggers`")
        );
    }
    for (name, is_given) in [("expect", settings.expect.is_some()), ("locked", settings.locked.is_some())] {
        if is_given {
            let diagnostic = Diagnostic::new(format!("`{name}` is a setting of `lm-eval run`"));
            bail!(
                diagnostic
                    .hint("`lm-eval reproduce CLAIM RUN` judges the scores of a run with `output_path`")
            );
        }
    }
    if !settings.scoring.budgets.is_empty() {
        let diagnostic = Diagnostic::new("`budgets` is a setting of `lm-eval run`");
        bail!(diagnostic.hint("`lm-eval budget RUN` scores the answers of a run with `output_path`"));
    }
    for note in &settings.notes {
        printer.notes().info(note);
    }
    request.use_registered();
    let (tasks, roots) = tasks::of_run(request, printer)?;
    let model_args = as_given(request, "model_args").unwrap_or_default();
    let program = Program { caller: &request.caller, python: None, cancel: &request.cancel };
    let mut session =
        Session::prepare(settings, clock, &roots, Some(&program), &model_args, printer.notes())?;
    let model = match live_model(request, &session.settings)? {
        Some(model) => model,
        None => session.create_model()?,
    };
    // The caller writes files itself, but a folder that is not writable is an error before the run.
    session.open_files()?;
    session.files = None;
    session.create_judges()?;
    session.judging.judges.extend(live_judges(request, &session.settings)?);
    session.open_journal(&*model);
    let mut options = session.options();
    options.keep_samples = true;
    let mut evaluation = session.evaluate(&model, tasks, &options, printer)?.outcome?;
    session.judging.add_costs(&mut evaluation);
    output::print_warnings(&evaluation, printer);
    output::repeat_warnings(&*model, printer);
    output::report_unusual_answers(&evaluation, printer);
    let mut facts = facts(request, &session, &*model, &evaluation);
    facts.model_usage = session.judging.model_usage(&session.settings, evaluation.usage);
    judges::report_model(&facts.model_usage, printer);
    judges::report(&evaluation, printer);
    if !evaluation.failures.is_empty() {
        output::report_failures(&evaluation.failures, session.journal.is_some(), printer);
    }
    let configs = output::configs(&session.settings, &evaluation);
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

/// The judges that the caller passed as objects.
fn live_judges(request: &Request, settings: &RunSettings) -> Result<Vec<JudgeModel>> {
    let mut judges = Vec::new();
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
    let [random, numpy, torch, _] = settings.prompts.seeds;
    let made = PythonModelSettings {
        args: settings.model.args.clone(),
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

fn facts(request: &Request, session: &Session, model: &dyn Model, evaluation: &Evaluated) -> RunFacts {
    let facts = output::facts(session, model.facts(), evaluation);
    let text = |name: &str, default: String| {
        as_given(request, name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or(default)
    };
    let is_requested = session.settings.dialect.device_as_requested || facts.device.is_none();
    let device = as_given(request, "device").filter(|_| is_requested).unwrap_or(facts.device);
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
