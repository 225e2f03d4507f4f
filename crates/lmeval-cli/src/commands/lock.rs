//! `lm-eval lock`: compares what runs were made of.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use lmeval_claims::lock::{Difference, differences};
use lmeval_pycompat::Value;

use crate::commands::Status;
use crate::json_line;
use crate::printer::Printer;
use crate::run::lock::{open, short};
use crate::table;

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    /// The subcommand to run.
    #[command(subcommand)]
    action: LockAction,
}

/// Subcommands of `lock`.
#[derive(Debug, Subcommand)]
enum LockAction {
    /// Name what differs between two runs, in order of suspicion; exits with 1 if anything does.
    ///
    /// Changes without effect on documents, requests or scoring are not named: comments, other names of files, rows that are not used.
    #[command(
        after_help = "Exit status: 0 if nothing differs, 1 if something does, 2 for a usage error.\n\nExample:\n  lm-eval lock diff released candidate"
    )]
    Diff {
        /// A lock, a results file with its lock beside it, or a folder with runs, of which the newest is taken.
        base: PathBuf,
        /// The other one.
        new: PathBuf,
        /// Print one JSON object per difference.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub(super) fn run(arguments: &LockArgs, printer: &mut Printer) -> Result<Status> {
    let LockAction::Diff { base, new, json } = &arguments.action;
    let (base_path, base) = open(base)?;
    let (new_path, new) = open(new)?;
    let found = differences(&base, &new);
    if *json {
        let mut text = String::new();
        for difference in &found {
            json_line::write(&mut text, &value(difference))?;
        }
        printer.exact(&text)?;
    } else if found.is_empty() {
        printer.result(&format!(
            "`{}` and `{}` are the same evaluation\n",
            base_path.display(),
            new_path.display()
        ))?;
    } else {
        let rows: Vec<Vec<String>> = found.iter().map(cells).collect();
        let headers = ["Suspect", "What", "Tasks", "Base", "New"].map(str::to_owned);
        printer.table(&table::render(&headers, &rows, headers.len()))?;
    }
    Ok(if found.is_empty() { Status::Success } else { Status::Failure })
}

fn cells(difference: &Difference) -> Vec<String> {
    const SHOWN: usize = 3;
    let Difference { kind, what, base, new, tasks } = difference;
    let mut names: Vec<String> = tasks.iter().take(SHOWN).cloned().collect();
    if tasks.len() > SHOWN {
        names.push(format!("{} more", tasks.len() - SHOWN));
    }
    let value = |text: &str| if text.is_empty() { "—".to_owned() } else { short(text) };
    let names = if names.is_empty() { "all".to_owned() } else { names.join(", ") };
    vec![kind.name().to_owned(), what.clone(), names, value(base), value(new)]
}

fn value(difference: &Difference) -> Value {
    let text = |text: &str| Value::str(text);
    Value::dict([
        ("suspect", text(difference.kind.name())),
        ("what", text(&difference.what)),
        ("base", text(&difference.base)),
        ("new", text(&difference.new)),
        ("tasks", Value::list(difference.tasks.iter().map(|task| text(task)))),
    ])
}
