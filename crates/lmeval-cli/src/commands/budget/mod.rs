//! `lm-eval budget`: the scores of a run at lower token limits and with fewer repeats, from its stored answers.

mod arguments;
mod cut;
mod judges;
mod measure;
mod output;
mod repeats;

use std::path::Path;

use anyhow::Result;

pub(crate) use self::arguments::BudgetArgs;
pub(crate) use self::cut::{CutModel, SharedCut};
use self::measure::Measurement;
use crate::commands::Status;
use crate::commands::curve::Format;
use crate::printer::Printer;
use crate::settings::RunSettings;
use crate::stored::{Prefer, StoredArgs, StoredRun};

/// Scores stored answers at several budgets.
pub(crate) fn run(arguments: &BudgetArgs, printer: &mut Printer) -> Result<Status> {
    let stored = StoredRun::open(&arguments.stored, &arguments.stored.options(), Prefer::Journal, printer)?;
    let curve =
        Measurement::prepare(stored, arguments.tokenizer.as_deref())?.curve(&arguments.budgets, printer)?;
    output::print(&curve, arguments.output.format, printer)?;
    if let Some(path) = &arguments.output.folder {
        output::save(&curve, path, printer)?;
    }
    Ok(Status::Success)
}

/// Scores the answers of a run that has just ended at the budgets of its settings, and saves the curve next to its results.
pub(crate) fn of_run(results: &Path, settings: &RunSettings, printer: &mut Printer) -> Result<()> {
    let arguments = StoredArgs::of_run(results, settings);
    let stored = StoredRun::open(&arguments, &arguments.options(), Prefer::Journal, printer)?;
    let curve = Measurement::prepare(stored, None)?.curve(&settings.scoring.budgets, printer)?;
    printer.result("\n")?;
    output::print(&curve, Format::Table, printer)?;
    output::save(&curve, results.parent().unwrap_or(Path::new("")), printer)
}
