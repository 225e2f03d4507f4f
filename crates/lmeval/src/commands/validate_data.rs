//! The part of `lm-eval validate` that opens data.

use std::path::PathBuf;

use anyhow::Result;
use lmeval_data::Settings;
use lmeval_engine::{ClassSettings, DataOptions, load_class, request_sources};
use lmeval_tasks::prompt::{RequestBuilder, RequestOptions};
use lmeval_tasks::{Diagnostic, Finding, Overrides, Severity, Spec, Task, TaskManager};

use crate::printer::Printer;
use crate::{environment, python, report};

/// What is wrong with the tasks once their data is there: columns that are missing, and a first document that cannot
/// be turned into requests.
pub(crate) fn findings(
    manager: &TaskManager,
    specs: &[Spec],
    roots: &[PathBuf],
    printer: &Printer,
) -> Result<Vec<Finding>> {
    let data = DataOptions {
        settings: Some(Settings::from_environment()),
        dataset_dir: environment::dataset_dir(),
        limit_rows: environment::limit_rows(),
        python: Some(python::host(None, &[], roots, &printer.notes())?),
    };
    let mut findings = Vec::new();
    for (name, mut task) in manager.load(specs, Overrides::default())?.tasks {
        let diagnostics = match check(&mut task, &data) {
            Ok(diagnostics) => diagnostics,
            Err(error) => vec![Diagnostic::new(report::plain(&error))],
        };
        findings.extend(diagnostics.into_iter().map(|diagnostic| Finding {
            name: Some(name.clone()),
            severity: Severity::Error,
            diagnostic,
        }));
    }
    Ok(findings)
}

fn check(task: &mut Task, data: &DataOptions) -> Result<Vec<Diagnostic>> {
    load_class(task, &ClassSettings::default(), data)?;
    let options = RequestOptions { limit: Some(1.0), ..RequestOptions::default() };
    let builder = RequestBuilder::new(task, &request_sources(task, data)?, &options)?;
    let missing = builder.missing_columns().iter().map(|missing| missing.diagnostic(task)).collect();
    builder.build_all()?;
    Ok(missing)
}
