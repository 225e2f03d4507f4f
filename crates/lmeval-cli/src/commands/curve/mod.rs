//! `lm-eval curve`: the scores of finished runs over the steps of their checkpoints.

mod arguments;
mod output;

use std::path::PathBuf;

use anyhow::{Result, bail};
use lmeval_analysis::curve::{Curves, StepPattern, read_lines, steps_of};
use lmeval_analysis::read::has_extension;
use lmeval_core::Diagnostic;

pub(crate) use self::arguments::{CurveArgs, CurveOutput, Format, ScoreOptions};
pub(crate) use self::output::{FRONT, csv, save, table};
use crate::commands::Status;
use crate::printer::Printer;

/// Draws the curve of finished runs.
pub(crate) fn run(arguments: &CurveArgs, printer: &mut Printer) -> Result<Status> {
    let pattern = arguments.scores.step_pattern.as_deref().map(StepPattern::parse).transpose()?;
    let (lines, runs): (Vec<PathBuf>, Vec<PathBuf>) =
        arguments.runs.iter().cloned().partition(|path| is_lines(path));
    let mut curves = Curves::default();
    for path in &lines {
        for figures in read_lines(path)? {
            curves.add_figures(figures);
        }
    }
    for run in steps_of(&runs, pattern.as_ref())? {
        curves.add(run)?;
    }
    let name = arguments.name.clone().unwrap_or_else(|| name_of(&arguments.runs));
    let curve = curves.build(&name, &arguments.selection())?;
    if curve.scores.is_empty() {
        let none = Diagnostic::new("The runs have no scores to draw");
        bail!(none.hint("`--tasks` and `--metrics` choose among those of the runs"));
    }
    match arguments.output.format {
        Format::Table => printer.table(&table(&curve))?,
        Format::Csv => printer.data(&csv(&curve), false)?,
        Format::Json => printer.data(&curve.to_json(), true)?,
        Format::Jsonl => printer.data(&curve.to_lines(), true)?,
        Format::Svg => printer.exact(&curve.figure().to_svg())?,
    }
    printer.flush()?;
    for note in &curve.notes {
        printer.note(&format!("note: {note}"));
    }
    if let Some(folder) = &arguments.output.folder {
        save(curve, folder, printer)?;
    }
    Ok(Status::Success)
}

/// Whether a file has lines per step. Samples files have the same extension.
fn is_lines(path: &std::path::Path) -> bool {
    let name = lmeval_analysis::read::file_name(path);
    has_extension(path, "jsonl") && !name.starts_with("samples_")
}

/// The name of the only path, or of the first.
fn name_of(paths: &[PathBuf]) -> String {
    let first = paths.first().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    first.and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).unwrap_or_default()
}
