//! `lm-eval journal`: inspect and maintain saved answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use lmeval_core::Diagnostic;
use lmeval_journal::{Listing, ModelSummary, Problem};
use lmeval_pycompat::{Dict, Value};

use crate::cli::{JournalAction, JournalArgs};
use crate::commands::Status;
use crate::json_line;
use crate::printer::Printer;
use crate::words::counted;

/// Runs the chosen subcommand.
pub(crate) fn run(arguments: &JournalArgs, printer: &mut Printer) -> Result<Status> {
    match &arguments.action {
        JournalAction::Ls { path, json } => list(&find(path)?, *json, printer),
        JournalAction::Verify { path, json } => verify(&find(path)?, *json, printer),
        JournalAction::Compact { path } => compact(&find(path)?, printer),
        JournalAction::Merge { inputs, output } => merge(inputs, output, printer),
        JournalAction::Export { path } => {
            lmeval_journal::export(&find(path)?, printer.results())?;
            Ok(Status::Success)
        }
    }
}

/// The journal at a path: the file itself, or the only one in a folder or in its model subfolders.
fn find(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let mut found = journals_in(path)?;
    if found.is_empty() {
        for entry in fs_err::read_dir(path)? {
            let folder = entry?.path();
            if folder.is_dir() {
                found.extend(journals_in(&folder)?);
            }
        }
    }
    found.sort_unstable();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!("No journal in `{}`", path.display()),
        several => {
            let names: Vec<String> = several.iter().map(|path| format!("`{}`", path.display())).collect();
            let diagnostic = Diagnostic::new(format!("Several journals in `{}`", path.display()));
            bail!(diagnostic.hint(format!("Choose one of {}", names.join(", "))))
        }
    }
}

fn journals_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "journal") && path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

fn list(path: &Path, json: bool, printer: &mut Printer) -> Result<Status> {
    let listing = lmeval_journal::list(path)?;
    let text = if json { listing_as_json(path, &listing)? } else { listing_as_text(path, &listing) };
    if json {
        printer.exact(&text)?;
    } else {
        printer.result(&text)?;
    }
    Ok(Status::Success)
}

fn listing_as_text(path: &Path, listing: &Listing) -> String {
    let mut text = format!("{}: {} bytes", path.display(), listing.bytes);
    if listing.reclaimable > 0 {
        let _ = write!(text, ", {} of which `lm-eval journal compact` would free", listing.reclaimable);
    }
    text.push('\n');
    for model in &listing.models {
        let identity = identity(model);
        let _ = writeln!(text, "\n{identity}: {}", counts(model.answered, model.failed));
        for task in &model.tasks {
            let name = task.task.as_deref().unwrap_or("(from an old cache)");
            let _ = writeln!(text, "  {name}: {}", counts(task.answered, task.failed));
        }
    }
    text
}

fn identity(model: &ModelSummary) -> String {
    model.identity.clone().unwrap_or_else(|| format!("Unknown model, {}", model.fingerprint))
}

fn counts(answered: usize, failed: usize) -> String {
    if failed == 0 { format!("{answered} answered") } else { format!("{answered} answered, {failed} failed") }
}

fn number(number: usize) -> Value {
    Value::Int(number as i64)
}

/// One JSON object per model.
fn listing_as_json(path: &Path, listing: &Listing) -> Result<String> {
    let mut text = String::new();
    for model in &listing.models {
        let tasks = model.tasks.iter().map(|task| {
            Value::dict([
                ("task", task.task.as_deref().map_or(Value::None, Value::str)),
                ("answered", number(task.answered)),
                ("failed", number(task.failed)),
            ])
        });
        let line = Value::dict([
            ("journal", Value::from(path.display().to_string())),
            ("model", model.identity.as_deref().map_or(Value::None, Value::str)),
            ("fingerprint", Value::from(model.fingerprint.to_string())),
            ("answered", number(model.answered)),
            ("failed", number(model.failed)),
            ("bytes", Value::Int(model.bytes as i64)),
            ("tasks", Value::list(tasks)),
        ]);
        json_line::write(&mut text, &line)?;
    }
    Ok(text)
}

fn verify(path: &Path, json: bool, printer: &mut Printer) -> Result<Status> {
    let found = lmeval_journal::verify(path)?;
    let status = if found.is_sound() { Status::Success } else { Status::Failure };
    if json {
        let problems = found.problems.iter().map(|problem| Value::from(problem_facts(*problem)));
        let line = Value::dict([
            ("journal", Value::from(path.display().to_string())),
            ("sound", Value::Bool(found.is_sound())),
            ("records", number(found.records)),
            ("answers", number(found.answers)),
            ("failures", number(found.failures)),
            ("bytes", Value::Int(found.bytes as i64)),
            ("problems", Value::list(problems)),
        ]);
        let mut text = String::new();
        json_line::write(&mut text, &line)?;
        printer.exact(&text)?;
        return Ok(status);
    }
    let counts = counts(found.answers, found.failures);
    let state = if found.is_sound() { "intact" } else { "damaged" };
    printer.result(&format!(
        "{}: {state}, {}, {counts}, {} bytes\n",
        path.display(),
        counted(found.records, "record"),
        found.bytes
    ))?;
    for problem in &found.problems {
        printer.result(&format!("  {problem}\n"))?;
    }
    if !found.is_sound() {
        printer.note("hint: Damaged answers are never used: the next run sends those requests again, and `lm-eval journal compact` removes the damage");
    }
    Ok(status)
}

fn problem_facts(problem: Problem) -> Dict {
    let (kind, offset, bytes) = match problem {
        Problem::Damaged { offset, bytes } => ("damaged", offset, bytes),
        Problem::Unfinished { offset, bytes } => ("unfinished", offset, bytes),
        _ => ("other", 0, 0),
    };
    let mut facts = Dict::new();
    facts.insert("problem", kind);
    facts.insert("offset", offset as i64);
    facts.insert("bytes", bytes as i64);
    facts
}

fn compact(path: &Path, printer: &mut Printer) -> Result<Status> {
    let done = lmeval_journal::compact(path)?;
    let line = format!(
        "{}: kept {}, removed {} and {}, {} bytes instead of {}\n",
        path.display(),
        counts(done.answers, done.failures),
        counted(done.dropped, "record"),
        counted(done.damaged, "damaged part"),
        done.bytes_after,
        done.bytes_before
    );
    printer.result(&line).context("Cannot print the result")?;
    Ok(Status::Success)
}

fn merge(inputs: &[PathBuf], output: &Path, printer: &mut Printer) -> Result<Status> {
    if output.exists() {
        let diagnostic = Diagnostic::new(format!("`{}` exists already", output.display()));
        bail!(diagnostic.hint("Name a new file with `-o`; journals are never replaced"));
    }
    let inputs: Vec<PathBuf> = inputs.iter().map(|path| find(path)).collect::<Result<_>>()?;
    let merged = lmeval_journal::merge(&inputs, output)?;
    for (path, damage) in inputs.iter().zip(&merged.damage).filter(|(_, damage)| !damage.is_empty()) {
        let bytes: u64 = damage.iter().map(|part| part.bytes).sum();
        printer.warn(&format!(
            "`{}` has {}, {bytes} bytes, the first at offset {}; the answers there are left out",
            path.display(),
            counted(damage.len(), "damaged part"),
            damage[0].offset
        ));
    }
    printer.result(&format!(
        "{}: {} of {}, {}, {} bytes\n",
        output.display(),
        counts(merged.answers, merged.failures),
        counted(inputs.len(), "journal"),
        counted(merged.duplicates, "duplicate"),
        merged.bytes
    ))?;
    if merged.conflicts == 0 {
        return Ok(Status::Success);
    }
    let mut text = format!(
        "{} from that of an earlier journal to the same request and {} left out",
        if merged.conflicts == 1 {
            "1 answer differs".to_owned()
        } else {
            format!("{} answers differ", merged.conflicts)
        },
        if merged.conflicts == 1 { "was" } else { "were" },
    );
    for conflict in &merged.first_conflicts {
        let name =
            |index: usize| inputs.get(index).map_or_else(String::new, |path| path.display().to_string());
        let request = match &conflict.document {
            Some((task, document)) => format!("`{task}`, document {document}, key {}", conflict.key),
            None => format!("key {}", conflict.key),
        };
        let _ = write!(
            text,
            "\n  {request}: taken from {}, not from {}",
            name(conflict.taken),
            name(conflict.other)
        );
    }
    if merged.conflicts > merged.first_conflicts.len() {
        let _ = write!(text, "\n  and {} more", merged.conflicts - merged.first_conflicts.len());
    }
    printer.error(&text);
    Ok(Status::Failure)
}
