//! `lm-eval doctor`: checks a model before a run.

use std::fmt::Write as _;
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Result, bail};
use clap::Parser as _;
use lmeval_core::{Check, ModelStats, Verdict};
use lmeval_pycompat::{Dict, Value};

use crate::cli::{Cli, Command, DoctorArgs};
use crate::commands::Status;
use crate::json_line;
use crate::log;
use crate::printer::Printer;
use crate::python;
use crate::run::model;
use crate::settings::RunSettings;

/// The time for a server that is down to come up, in seconds, unless the model arguments set `patience`.
const PATIENCE: i64 = 5;

/// The width of the column of subjects.
const WIDTH: usize = 17;

pub(super) fn run(arguments: &DoctorArgs, printer: &mut Printer) -> Result<Status> {
    let mut settings = settings(arguments)?;
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (sender, checks) = mpsc::channel();
    let examined = Arc::clone(&model);
    // Checks are printed as they arrive; the sender is dropped with the last one.
    let thread = thread::spawn(move || {
        runtime.block_on(examined.examine(Box::new(move |check| drop(sender.send(check)))));
    });
    let mut has_failed = false;
    let mut count = 0;
    for check in checks {
        count += 1;
        has_failed |= check.verdict == Verdict::Bad;
        printer.result(&if arguments.json { json(&check)? } else { text(&check) })?;
        printer.flush()?;
    }
    if thread.join().is_err() {
        bail!("A check panicked");
    }
    for warning in model.stats().map(ModelStats::take_warnings).unwrap_or_default() {
        printer.warn(&warning);
    }
    if count == 0 {
        let is_served =
            lmeval::registry().models.get(&arguments.model).is_some_and(|entry| entry.facts.is_served);
        let detail = if is_served {
            "has no checks; `lm-eval run --limit 1` tries it"
        } else {
            "runs in this process and was created: nothing else to check"
        };
        printer.result(&format!("`{}` {detail}\n", arguments.model))?;
    }
    Ok(if has_failed { Status::Failure } else { Status::Success })
}

/// The settings that the same arguments give `run`.
fn settings(arguments: &DoctorArgs) -> Result<RunSettings> {
    let words = ["lm-eval", "run", "--tasks", "demo_capitals", "--model", &arguments.model];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    if !arguments.model_args.is_empty() {
        words.push("--model_args".to_owned());
        words.extend(arguments.model_args.iter().cloned());
    }
    match Cli::try_parse_from(words)?.command {
        Command::Run(mut options) => {
            options.python.python = options.python.python.or_else(|| arguments.python.clone());
            RunSettings::from_flags(&options)
        }
        _ => bail!("The arguments are not those of a run"),
    }
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
