//! `validate --data`: whether the data of a task is there and gives a request.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use lmeval_data::Settings;
use lmeval_engine::{ClassSettings, DataOptions, load_class, load_splits, request_sources};
use lmeval_pycompat::Value;
use lmeval_tasks::prompt::{DocumentRequests, RequestBuilder, RequestOptions};
use lmeval_tasks::{Overrides, Spec, Task, TaskManager};

use crate::cli::ValidateArgs;
use crate::commands::preview;
use crate::printer::Printer;
use crate::progress::Downloads;
use crate::words::counted;
use crate::{environment, json_line, python, report};

/// What the data of a task has.
struct Opened {
    /// The splits that the task names, with their numbers of documents.
    splits: Vec<(String, usize)>,
    /// The columns of the split that is evaluated.
    columns: Vec<String>,
    /// The requests of the first document.
    first: DocumentRequests,
}

/// Opens the data of every task that the specs name; answers how many tasks have data that cannot be used. Definitions that
/// do not load are left to the other checks.
pub(super) fn check(
    manager: &TaskManager,
    specs: &[Spec],
    roots: &[std::path::PathBuf],
    arguments: &ValidateArgs,
    printer: &mut Printer,
) -> Result<usize> {
    let mut settings = Settings::from_environment();
    settings.progress = Arc::new(Downloads::new(printer.notes()));
    let host =
        python::host(arguments.python.python.as_deref(), &arguments.python.plugins, roots, &printer.notes())?;
    let data = DataOptions {
        settings: Some(settings),
        dataset_dir: environment::dataset_dir(),
        limit_rows: environment::limit_rows(),
        python: Some(host),
    };
    let mut failed = 0;
    for spec in specs {
        let Ok(mut loaded) = manager.load(std::slice::from_ref(spec), Overrides::default()) else { continue };
        for (name, task) in &mut loaded.tasks {
            match open(task, &data) {
                Ok(opened) => printer.result(&opened.shown(name, task, arguments.json)?)?,
                Err(error) => {
                    failed += 1;
                    tell_failure(name, &error, arguments.json, printer)?;
                }
            }
        }
    }
    Ok(failed)
}

/// Reads the data of a task and builds the requests of its first document.
fn open(task: &mut Task, data: &DataOptions) -> Result<Opened> {
    let dialect = environment::dialect()?;
    let options = RequestOptions { limit: Some(1.0), dialect, ..RequestOptions::default() };
    let classes = ClassSettings { dialect: options.dialect, ..ClassSettings::default() };
    load_class(task, &classes, data)?;
    let all = load_splits(task, data)?;
    let config = &task.config;
    let mut splits: Vec<(String, usize)> = Vec::new();
    let mut columns = Vec::new();
    // The split that is evaluated comes first: its columns are those that templates see.
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
    // Checks of a definition against the columns of its data belong here: `task.config` and `columns` are at hand, and
    // what they find fails this task like everything else.
    let sources = request_sources(task, data)?;
    let mut builder = RequestBuilder::new(task, &sources, &options)?;
    let first = builder.next().ok_or_else(|| anyhow!("There are no documents to evaluate"))??;
    Ok(Opened { splits, columns, first })
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

fn tell_failure(name: &str, error: &anyhow::Error, json: bool, printer: &mut Printer) -> Result<()> {
    if !json {
        report::failure(printer, error);
        printer.note("");
        return Ok(());
    }
    let line = Value::dict([
        ("name", Value::from(name)),
        ("severity", Value::from("error")),
        ("message", Value::from(format!("{error:#}"))),
    ]);
    let mut text = String::new();
    json_line::write(&mut text, &line)?;
    printer.result(&text)?;
    Ok(())
}
