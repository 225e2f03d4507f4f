//! `lm-eval doctor`: checks a model before a run.

mod arguments;
mod begin;
mod forms;
mod traps;

use std::fmt::Write as _;
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Result, bail};
use lmeval_core::{Check, Model, ModelStats, Verdict};
use lmeval_pycompat::{Dict, Value};

pub(crate) use self::arguments::DoctorArgs;
pub(crate) use self::forms::find;
pub(crate) use self::traps::{Finding, Form, Looks, SYSTEM, Scored};
use crate::commands::Status;
use crate::json_line;
use crate::log;
use crate::printer::Printer;
use crate::python;
use crate::run::advice::Recommended;
use crate::run::model;

/// The time for a server that is down to come up, in seconds, unless the model arguments set `patience`.
const PATIENCE: i64 = 5;

/// The width of the column of subjects.
const WIDTH: usize = 17;

pub(super) fn run(arguments: &DoctorArgs, printer: &mut Printer) -> Result<Status> {
    let mut settings = arguments.settings()?;
    let is_server = settings.model.args.get_str("base_url").is_some();
    if is_server && settings.model.args.get_str("patience").is_none() {
        settings.model.args.insert("patience", PATIENCE);
    }
    let notes = printer.notes();
    log::start(settings.output.log, &notes)?;
    let options = python::options(settings.python.python.as_deref(), settings.python.plugins(), &[], &notes)?;
    // Contact is a check of its own.
    let model = model::create(&settings, &options, &notes, true)?;
    if let Some(stats) = model.stats() {
        let waiting = notes.clone();
        stats.on_wait(move |reason| waiting.info(reason));
        stats.on_warning(move |warning| notes.warn(warning));
    }
    let examined = examine(&model, arguments, printer)?;
    let greedy = Dict::new();
    for advice in Recommended::of_model(&settings.model.args).advice(&settings, &[&greedy]) {
        let check =
            Check { subject: "model files", verdict: Verdict::Note, detail: advice, advice: Vec::new() };
        print(&check, arguments, printer)?;
    }
    for warning in model.stats().map(ModelStats::take_warnings).unwrap_or_default() {
        printer.warn(&warning);
    }
    if examined.count == 0 {
        let is_served =
            lmeval::registry().models.get(&arguments.model).is_some_and(|entry| entry.facts.is_served);
        let detail = if is_served {
            "has no checks; `lm-eval run --limit 1` tries it"
        } else {
            "runs in this process and was created: nothing else to check"
        };
        printer.result(&format!("`{}` {detail}\n", arguments.model))?;
    }
    let mut has_failed = examined.has_failed;
    if !arguments.tasks.is_empty() && examined.is_reached {
        has_failed |= forms::compare(arguments, settings, &model, printer)?;
    }
    Ok(if has_failed { Status::Failure } else { Status::Success })
}

/// What the checks of a model said.
struct Examined {
    count: usize,
    has_failed: bool,
    /// Whether the model can be asked at all.
    is_reached: bool,
}

/// Makes the checks of a model.
fn examine(model: &Arc<dyn Model>, arguments: &DoctorArgs, printer: &mut Printer) -> Result<Examined> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (sender, checks) = mpsc::channel();
    let examined = Arc::clone(model);
    // Checks are printed as they arrive; the sender is dropped with the last one.
    let thread = thread::spawn(move || {
        runtime.block_on(examined.examine(Box::new(move |check| drop(sender.send(check)))));
    });
    let mut examined = Examined { count: 0, has_failed: false, is_reached: true };
    for check in checks {
        let is_bad = check.verdict == Verdict::Bad;
        examined.count += 1;
        examined.has_failed |= is_bad;
        examined.is_reached &= !(is_bad && ["contact", "model"].contains(&check.subject));
        print(&check, arguments, printer)?;
    }
    if thread.join().is_err() {
        bail!("A check panicked");
    }
    Ok(examined)
}

fn print(check: &Check, arguments: &DoctorArgs, printer: &mut Printer) -> Result<()> {
    printer.result(&if arguments.json { json(check)? } else { text(check) })?;
    Ok(printer.flush()?)
}

fn text(check: &Check) -> String {
    let mut text = format!("{:<WIDTH$}  {:<6}  {}\n", check.subject, check.verdict.name(), check.detail);
    for advice in &check.advice {
        let _ = writeln!(text, "{:<WIDTH$}  {:<6}  → {advice}", "", "");
    }
    text
}

fn json(check: &Check) -> Result<String> {
    let mut object = Dict::new();
    object.insert("check", check.subject);
    object.insert("verdict", check.verdict.name());
    object.insert("detail", check.detail.as_str());
    object.insert("advice", Value::list(check.advice.iter().map(|advice| Value::str(advice.as_str()))));
    let mut line = String::new();
    json_line::write(&mut line, &Value::from(object))?;
    Ok(line)
}
