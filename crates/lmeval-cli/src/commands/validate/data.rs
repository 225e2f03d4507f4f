//! `validate --data`: checks that a task's data can be loaded and produces requests.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use lmeval_core::Level;
use lmeval_data::Settings;
use lmeval_engine::{ClassSettings, DataOptions, load_class, load_splits, request_sources};
use lmeval_pycompat::Value;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions};
use lmeval_tasks::{Diagnostic, Overrides, Spec, Task, TaskManager};

use crate::cli::ValidateArgs;
use crate::commands::preview;
use crate::printer::Printer;
use crate::progress::Downloads;
use crate::settings;
use crate::words::counted;
use crate::{json_line, python, report};

/// The opened data of a task.
struct Opened {
    /// The splits named by the task, with their numbers of documents.
    splits: Vec<(String, usize)>,
    /// The columns of the evaluated split.
    columns: Vec<String>,
    /// The requests of the first document.
    first: DocumentRequests,
    /// Fields that name missing columns.
    missing: Vec<Diagnostic>,
}

/// Opens the data of every task in the specs; returns the number of tasks with unusable data. Skips definitions that do
/// not load, which other checks report.
pub(super) fn check(
    manager: &TaskManager,
    specs: &[Spec],
    roots: &[std::path::PathBuf],
    arguments: &ValidateArgs,
    printer: &mut Printer,
) -> Result<usize> {
    let mut settings = Settings::from_environment();
    settings.hub.progress = Arc::new(Downloads::new(printer.notes()));
    let host = python::host(
        arguments.python.python.as_deref(),
        arguments.python.plugins(),
        roots,
        &printer.notes(),
    )?;
    let data =
        DataOptions { settings: Some(settings), python: Some(host), ..lmeval::environment::data_options() };
    let mut failed = 0;
    for spec in specs {
        let Ok(mut loaded) = manager.load(std::slice::from_ref(spec), Overrides::default()) else { continue };
        for (name, task) in &mut loaded.tasks {
            match open(task, &data) {
                Ok(opened) => {
                    let shown = opened.shown(name, task, arguments.json)?;
                    if arguments.json {
                        printer.exact(&shown)?;
                    } else {
                        printer.result(&shown)?;
                    }
                    failed += usize::from(!opened.missing.is_empty());
                    for missing in &opened.missing {
                        let print = |printer: &mut Printer| {
                            printer.rendered(Level::Error, &report::render(Level::Error, missing));
                        };
                        print_error(name, &missing.message, print, arguments.json, printer)?;
                    }
                }
                Err(error) => {
                    failed += 1;
                    let print = |printer: &mut Printer| report::failure(printer, &error);
                    print_error(name, &format!("{error:#}"), print, arguments.json, printer)?;
                }
            }
        }
    }
    Ok(failed)
}

/// Loads the data of a task and builds the requests of its first document.
fn open(task: &mut Task, data: &DataOptions) -> Result<Opened> {
    let dialect = settings::dialect(None)?;
    let options = RequestOptions { limit: Some(1.0), dialect, ..RequestOptions::default() };
    let classes = ClassSettings { dialect: options.dialect, ..ClassSettings::default() };
    load_class(task, &classes, data)?;
    let all = load_splits(task, data)?;
    let config = &task.config;
    let mut splits: Vec<(String, usize)> = Vec::new();
    let mut columns = Vec::new();
    // The evaluated split comes first: templates see its columns.
    let named = [&config.test_split, &config.validation_split, &config.training_split, &config.fewshot_split];
    for name in named.into_iter().flatten() {
        if splits.iter().any(|(known, _)| known == name) {
            continue;
        }
        let documents = all.split(name).map_err(|error| anyhow!("{error}"))?;
        if splits.is_empty() {
            columns = documents.columns().to_vec();
        }
        splits.push((name.clone(), documents.len()));
    }
    let sources = request_sources(task, data)?;
    let mut builder = RequestBuilder::new(task, &sources, &options)?;
    let missing = builder.missing_columns().iter().map(|missing| missing.diagnostic(task)).collect();
    let first = builder.next().ok_or_else(|| anyhow!("No documents to evaluate"))??;
    // The builder reports a document without requests at the end.
    builder.try_for_each(|rest| rest.map(drop))?;
    Ok(Opened { splits, columns, first, missing })
}

impl Opened {
    fn shown(&self, name: &str, task: &Task, json: bool) -> Result<String> {
        let mut text = String::new();
        if json {
            let splits = self.splits.iter().map(|(name, count)| (name.as_str(), Value::Int(*count as i64)));
            let mut prompt = String::new();
            preview::describe(&mut prompt, task, &self.first);
            let line = Value::dict([
                ("name", Value::from(name)),
                ("splits", Value::dict(splits)),
                ("columns", Value::list(self.columns.iter().map(|column| Value::from(column.as_str())))),
                ("first_document", Value::from(prompt)),
            ]);
            json_line::write(&mut text, &line)?;
            return Ok(text);
        }
        let splits: Vec<String> = self
            .splits
            .iter()
            .map(|(name, count)| format!("{name} ({})", counted(*count, "document")))
            .collect();
        let _ = writeln!(text, "Data of {name}: {}", splits.join(", "));
        if !self.columns.is_empty() {
            let _ = writeln!(text, "Columns: {}", self.columns.join(", "));
        }
        preview::describe(&mut text, task, &self.first);
        Ok(text)
    }
}

fn print_error(
    name: &str,
    message: &str,
    print: impl FnOnce(&mut Printer),
    json: bool,
    printer: &mut Printer,
) -> Result<()> {
    if !json {
        print(printer);
        printer.note("");
        return Ok(());
    }
    let line = Value::dict([
        ("name", Value::from(name)),
        ("severity", Value::from("error")),
        ("message", Value::from(message)),
    ]);
    let mut text = String::new();
    json_line::write(&mut text, &line)?;
    printer.exact(&text)?;
    Ok(())
}
