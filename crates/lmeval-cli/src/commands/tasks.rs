//! `lm-eval tasks`: manages installed task libraries.

use anyhow::Result;
use lmeval::library::{Home, Installed};
use lmeval_pycompat::Value;
use lmeval_pycompat::json::{self, Options};

use crate::cli::{PullArgs, TasksAction, TasksArgs};
use crate::commands::Status;
use crate::library::{Change, Installation, Pull};
use crate::printer::Printer;
use crate::report::hint_lines;
use crate::words::counted;

/// Runs the chosen subcommand.
pub(crate) fn run(arguments: TasksArgs, printer: &mut Printer) -> Result<Status> {
    let home = Home::from_environment()?;
    match arguments.action {
        TasksAction::Pull(arguments) => pull(&home, arguments, printer)?,
        TasksAction::List { json } => list(&home, json, printer)?,
        TasksAction::Remove { version } => remove(&home, &version, printer)?,
        TasksAction::Use { version } => {
            let library = home.require(&version)?;
            let library =
                Change::start(&home, &mut |text| printer.note(text))?.set_default(&library.version)?;
            printer.result(&format!("Default is now {}: {}\n", library.version, library.path.display()))?;
        }
    }
    Ok(Status::Success)
}

fn pull(home: &Home, arguments: PullArgs, printer: &mut Printer) -> Result<()> {
    let PullArgs { version, from, python, force } = arguments;
    let pull = Pull::new(version.as_deref(), from, python, force)?;
    let line = match pull.run(home, &mut |text| printer.note(text))? {
        Installation::New { library, files } => {
            format!(
                "Installed lm_eval {}: {} in {}\n",
                library.version,
                counted(files, "file"),
                library.path.display()
            )
        }
        Installation::AlreadyInstalled(library) => {
            format!("lm_eval {} is already installed: {}\n", library.version, library.path.display())
        }
    };
    Ok(printer.result(&line)?)
}

fn list(home: &Home, json: bool, printer: &mut Printer) -> Result<()> {
    let installed = home.installed()?;
    if installed.is_empty() {
        let hints = hint_lines(&["`lm-eval tasks pull` installs the public library".to_owned()]);
        printer.note(&format!("No library is installed; only the small built-in one is available{hints}"));
    }
    let width = installed.iter().map(|library| library.version.as_str().len()).max().unwrap_or(0);
    for library in installed {
        let line = if json {
            as_json(&library)?
        } else {
            let mark = if library.default { '*' } else { ' ' };
            format!("{mark} {:width$}  {}", library.version.as_str(), library.path.display())
        };
        let line = format!("{line}\n");
        if json { printer.exact(&line)? } else { printer.result(&line)? }
    }
    Ok(())
}

fn as_json(library: &Installed) -> Result<String> {
    let object = Value::dict([
        ("version", Value::str(library.version.as_str())),
        ("default", Value::Bool(library.default)),
        ("path", Value::str(library.path.display().to_string())),
    ]);
    Ok(json::dumps(&object, &Options::default())?)
}

fn remove(home: &Home, version: &str, printer: &mut Printer) -> Result<()> {
    let library = home.require(version)?;
    let default = Change::start(home, &mut |text| printer.note(text))?.remove(&library)?;
    printer.result(&format!("Removed {}\n", library.version))?;
    if let Some(default) = default {
        printer.result(&format!("Default is now {}: {}\n", default.version, default.path.display()))?;
    }
    Ok(())
}
