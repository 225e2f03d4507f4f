//! `lm-eval validate`: checks that tasks exist and are valid.

mod data;

use std::path::Path;

use anyhow::{Result, bail};
use lmeval_core::Level;
use lmeval_pycompat::{Value, repr};
use lmeval_tasks::{Finding, Severity, Spec, TaskManager};

use crate::cli::ValidateArgs;
use crate::commands::Status;
use crate::printer::Printer;
use crate::words::counted;
use crate::{json_line, report, roots};

/// Checks the named tasks, or all of them.
pub(crate) fn run(arguments: &ValidateArgs, printer: &mut Printer) -> Result<Status> {
    let roots = roots::resolve(&arguments.library, printer)?;
    let manager = roots::manager(&roots, &arguments.library)?;
    let words: Vec<&str> =
        arguments.tasks.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect();
    let (count, specs, findings) = if arguments.tasks.is_empty() {
        let specs = manager.all_subtasks().into_iter().map(Spec::from).collect();
        (manager.index().len(), specs, manager.validate_all())
    } else {
        let specs = manager.select(&words)?;
        let findings = manager.validate(&specs);
        (specs.len(), specs, findings)
    };
    if count == 0 && findings.is_empty() {
        bail!("Nothing to check: no task was named or found");
    }
    let missing = missing_words(&manager, &words);
    if arguments.json {
        print_json(&findings, printer)?;
    } else {
        print_title(&words, count, printer)?;
        print_findings(&findings, printer);
    }
    let unusable =
        if arguments.data { data::check(&manager, &specs, &roots, arguments, printer)? } else { 0 };
    if !arguments.json {
        print_summary(&findings, unusable, &missing, arguments.strict, printer)?;
    }
    let failed = |finding: &Finding| arguments.strict || finding.severity == Severity::Error;
    let failed = unusable > 0 || findings.iter().any(failed);
    Ok(if failed { Status::Failure } else { Status::Success })
}

/// Words that match no task or file.
fn missing_words<'a>(manager: &TaskManager, words: &[&'a str]) -> Vec<&'a str> {
    words
        .iter()
        .copied()
        .filter(|word| {
            manager.matching(word).is_empty()
                && !word.contains("::")
                && Path::new(word).extension().is_none_or(|extension| extension != "yaml")
        })
        .filter(|word| !Path::new(word).exists())
        .collect()
}

fn print_title(words: &[&str], count: usize, printer: &mut Printer) -> Result<()> {
    if words.is_empty() {
        let all = if count == 1 {
            "the only task".to_owned()
        } else {
            format!("all {count} tasks, groups and tags")
        };
        printer.result(&format!("Validating {all}\n"))?;
    } else {
        let list = Value::list(words.iter().map(|word| Value::from(*word)));
        printer.result(&format!("Validating tasks: {}\n", repr::repr(&list)))?;
    }
    Ok(())
}

fn print_findings(findings: &[Finding], printer: &mut Printer) {
    for finding in findings {
        let level = match finding.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
        };
        printer.rendered(level, &report::render(level, &named(finding)));
        printer.note("");
    }
}

fn print_summary(
    findings: &[Finding],
    unusable: usize,
    missing: &[&str],
    strict: bool,
    printer: &mut Printer,
) -> Result<()> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    let errors = errors + unusable;
    if !missing.is_empty() {
        printer.result(&format!("Tasks not found: {}\n", missing.join(", ")))?;
    } else if errors > 0 || (strict && warnings > 0) {
        printer.result(&format!("Found {}\n", counts(errors, warnings)))?;
    } else {
        printer.result("All tasks found and valid\n")?;
    }
    Ok(())
}

/// The diagnostic with the task's name in the message.
fn named(finding: &Finding) -> lmeval_tasks::Diagnostic {
    let mut diagnostic = finding.diagnostic.clone();
    let in_its_file =
        |name: &str| diagnostic.location.as_ref().is_some_and(|location| location.path() == Path::new(name));
    if let Some(name) = &finding.name
        && !diagnostic.message.contains(&format!("`{name}`"))
        && !in_its_file(name)
    {
        diagnostic.message = format!("{name}: {}", diagnostic.message);
    }
    diagnostic
}

fn counts(errors: usize, warnings: usize) -> String {
    format!("{} and {}", counted(errors, "error"), counted(warnings, "warning"))
}

fn print_json(findings: &[Finding], printer: &mut Printer) -> Result<()> {
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let location = finding.diagnostic.location.as_ref();
        let line = Value::dict([
            ("name", Value::from(finding.name.as_deref())),
            ("severity", Value::from(severity)),
            ("message", Value::from(finding.diagnostic.message.as_str())),
            ("path", Value::from(location.map(|location| location.path().to_string_lossy().into_owned()))),
            ("line", Value::from(location.map(|location| location.line as i64))),
            ("hints", Value::list(finding.diagnostic.hints.iter().map(|hint| Value::from(hint.as_str())))),
        ]);
        let mut text = String::new();
        json_line::write(&mut text, &line)?;
        printer.exact(&text)?;
    }
    Ok(())
}
