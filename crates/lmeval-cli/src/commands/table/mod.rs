//! `lm-eval table`: the scores of several runs in one table.

mod arguments;
mod formats;

use anyhow::Result;
use lmeval_analysis::read::Run;
use lmeval_analysis::table::{self, Selection, score_table};

pub(crate) use self::arguments::{Duplicates, Format, TableArgs};
use crate::commands::Status;
use crate::foreign;
use crate::printer::Printer;

/// Prints the scores of all runs.
pub(crate) fn run(arguments: &TableArgs, printer: &mut Printer) -> Result<Status> {
    let mut runs: Vec<Run> = Vec::new();
    for path in &foreign::runs(&arguments.runs)? {
        for run in Run::open_all(path)? {
            // `lm-eval table out out/model` names runs twice.
            if !runs.iter().any(|known| known.path == run.path) {
                runs.push(run);
            }
        }
    }
    let selection = Selection {
        tasks: arguments.tasks.clone(),
        metrics: arguments.metrics.clone(),
        filter: arguments.filter.clone(),
        duplicates: match arguments.duplicates {
            None => table::Duplicates::NewestIfSame,
            Some(Duplicates::Newest) => table::Duplicates::Newest,
            Some(Duplicates::Separate) => table::Duplicates::Separate,
        },
    };
    let scores = score_table(&runs, &selection)?;
    for note in &scores.notes {
        printer.note(&format!("note: {note}"));
    }
    match arguments.format {
        Format::Table => printer.table(&formats::markdown(&scores, arguments.by))?,
        Format::Markdown => printer.result(&formats::markdown(&scores, arguments.by))?,
        Format::Latex => printer.result(&formats::latex(&scores, arguments.by))?,
        Format::Csv => printer.data(&formats::csv(&scores, arguments.by), false)?,
        Format::Json => printer.data(&formats::json(&scores, &runs)?, true)?,
    }
    Ok(Status::Success)
}
