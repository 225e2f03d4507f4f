//! The comparison of forms of prompts, and its table.

use std::sync::Arc;

use anyhow::Result;
use lmeval_core::Model;
use lmeval_engine::{EvaluateOptions, JournalOptions};
use lmeval_pycompat::{Dict, Value};
use lmeval_tasks::{TaskDict, TaskManager};

use super::arguments::DoctorArgs;
use super::begin::Begins;
use super::traps::{Finding, Form, Looks, Scored, Traps, Verdict, forms};
use crate::printer::Printer;
use crate::run::model;
use crate::run::session::{Clock, Session};
use crate::settings::RunSettings;
use crate::{json_line, python, roots, table};

/// Backends whose prompts may get a BOS token by `add_bos_token`.
const WITH_BOS: [&str; 4] = ["hf", "hf-auto", "huggingface", "local-completions"];

/// A form looks different at this probability.
const SUSPICIOUS: f64 = 0.01;

/// How often, and for how many seconds, a server is asked about the first document of a form.
const RETRIES: i64 = 2;
const PATIENCE: i64 = 5;

/// Asks the first documents of the tasks in every form, and prints what is found. Returns whether another form is better than
/// the given one.
pub(super) fn compare(
    arguments: &DoctorArgs,
    settings: RunSettings,
    model: &Arc<dyn Model>,
    printer: &mut Printer,
) -> Result<bool> {
    let findings = findings(
        settings,
        model,
        (Looks { documents: arguments.limit, suspicious: SUSPICIOUS }, None),
        &|_, _, _| Vec::new(),
        printer,
    )?;
    if arguments.json {
        for finding in &findings {
            printer.result(&json(finding)?)?;
        }
    } else {
        printer.result("\n")?;
        printer.table(&rows(&findings))?;
        for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Gains) {
            let difference = finding.difference.map_or(0.0, |(difference, _)| difference);
            printer.result(&format!(
                "→ {} gains {:.1} points: {}\n",
                finding.name,
                100.0 * difference,
                finding.setting
            ))?;
        }
    }
    printer.flush()?;
    Ok(findings.iter().any(|finding| finding.verdict == Verdict::Gains))
}

/// Further forms for the settings and tasks.
pub(crate) type MoreForms<'a> = &'a dyn Fn(&EvaluateOptions, &TaskDict, &TaskManager) -> Vec<Form>;

/// Asks documents of the tasks of a run in every form, and in more of them, with a model of its own.
pub(crate) fn find(
    mut settings: RunSettings,
    looks: Looks,
    scored: Option<Scored>,
    more: MoreForms<'_>,
    printer: &mut Printer,
) -> Result<Vec<Finding>> {
    let notes = printer.notes();
    if settings.model.args.contains_str("base_url") && !settings.model.args.contains_str("model_id") {
        // The answers are forgotten at the end, so that a server need not be asked what it serves before each form.
        settings.model.args.insert("model_id", "asked in several forms");
    }
    let python = &settings.python;
    let options = python::options(python.python.as_deref(), python.plugins(), &[], &notes)?;
    let model = model::create(&settings, &options, &notes, false)?;
    findings(settings, &model, (looks, scored), more, printer)
}

fn findings(
    settings: RunSettings,
    model: &Arc<dyn Model>,
    (looks, scored): (Looks, Option<Scored>),
    more: MoreForms<'_>,
    printer: &mut Printer,
) -> Result<Vec<Finding>> {
    let roots = roots::resolve(&settings.library, printer)?;
    let manager = roots::manager(&roots, &settings.library)?.with_metadata(settings.metadata.clone());
    let tasks = roots::load(&manager, &settings.documents.tasks, printer)?;
    let args = settings.model.args.clone();
    let session = Session::prepare(
        settings,
        Clock::start(),
        &roots,
        None,
        &Value::from(args.clone()),
        printer.notes(),
    )?;
    session.listen(Some(model));
    let folder = tempfile::tempdir()?;
    let journal = JournalOptions { path: folder.path().join("answers.journal"), ..JournalOptions::default() };
    let adds_bos = WITH_BOS
        .contains(&session.settings.model.name.as_str())
        .then(|| args.get_str("add_bos_token").is_some_and(Value::is_truthy));
    let notes = printer.notes();
    let with = |changes: &[(&str, Value)]| {
        let mut own = session.settings.clone();
        for (name, value) in changes {
            own.model.args.insert(*name, value.clone());
        }
        let options = python::options(own.python.python.as_deref(), own.python.plugins(), &[], &notes)?;
        model::create(&own, &options, &notes, true)
    };
    let with_bos = |adds: bool| with(&[("add_bos_token", Value::Bool(adds))]);
    let is_server = args.contains_str("base_url");
    let impatient = |adds_bos: Option<bool>| -> Result<Option<Arc<dyn Model>>> {
        let mut changes = vec![("max_retries", Value::Int(RETRIES)), ("patience", Value::Int(PATIENCE))];
        changes.extend(adds_bos.map(|adds| ("add_bos_token", Value::Bool(adds))));
        // A model that is computed here would be loaded twice.
        is_server.then(|| with(&changes)).transpose()
    };
    let traps = Traps {
        session: &session,
        tasks: &tasks,
        model: Arc::clone(model),
        with_bos: &with_bos,
        impatient: &impatient,
        begins: Begins::of_model(&session.settings.model.name, &args),
        journal,
        looks,
        scored,
    };
    let options = session.options();
    let mut all = forms(&options, &tasks, adds_bos);
    all.extend(more(&options, &tasks, &manager));
    traps.find(&all, printer)
}

fn rows(findings: &[Finding]) -> String {
    let headers =
        ["Prompt", "Finding", "BOS", "Documents", "Score", "Difference", "95 % interval"].map(str::to_owned);
    let row = |finding: &Finding| {
        let (difference, interval) = finding.difference.unzip();
        let interval = interval.flatten();
        vec![
            finding.name.to_string(),
            finding.verdict.name().to_owned(),
            finding.begins.map_or_else(|| "?".to_owned(), |begins| begins.to_string()),
            finding.documents.to_string(),
            if finding.score.is_nan() { "—".to_owned() } else { format!("{:.4}", finding.score) },
            difference.map_or_else(String::new, |difference| format!("{difference:+.4}")),
            interval
                .map_or_else(String::new, |interval| format!("{:+.4} – {:+.4}", interval.low, interval.high)),
        ]
    };
    table::render(&headers, &findings.iter().map(row).collect::<Vec<_>>(), 2)
}

fn json(finding: &Finding) -> Result<String> {
    let (difference, interval) = finding.difference.unzip();
    let interval = interval.flatten();
    let number =
        |number: Option<f64>| number.filter(|number| number.is_finite()).map_or(Value::None, Value::Float);
    let mut object = Dict::new();
    object.insert("prompt", &*finding.name);
    object.insert("setting", &*finding.setting);
    object.insert("finding", finding.verdict.name());
    object.insert("bos_tokens", finding.begins.map_or(Value::None, |begins| Value::Int(begins as i64)));
    object.insert("documents", finding.documents as i64);
    object.insert("score", number(Some(finding.score)));
    object.insert("difference", number(difference));
    object.insert("low", number(interval.map(|interval| interval.low)));
    object.insert("high", number(interval.map(|interval| interval.high)));
    let mut line = String::new();
    json_line::write(&mut line, &Value::from(object))?;
    Ok(line)
}
