//! The folders searched for task definitions.

use std::path::PathBuf;

use anyhow::Result;
use lmeval::library::Home;
use lmeval_tasks::{Overrides, TaskDict, TaskManager};

use crate::printer::Printer;
use crate::report;
use crate::settings::LibraryArgs;

/// The library roots for the arguments; later ones win. Warns about missing folders.
pub(crate) fn resolve(arguments: &LibraryArgs, printer: &mut Printer) -> Result<Vec<PathBuf>> {
    let roots = arguments.roots()?;
    for folder in arguments.include_path.iter().flatten() {
        if !folder.is_dir() {
            printer.warn(&format!("the --include_path folder `{}` does not exist", folder.display()));
        }
    }
    Ok(roots)
}

/// A task manager for the roots, which suggests `tasks pull` for unknown names if the public library is missing.
pub(crate) fn manager(roots: &[PathBuf], arguments: &LibraryArgs) -> Result<TaskManager> {
    let manager = TaskManager::new(roots).with_registry(lmeval::registry());
    Ok(match missing_library(arguments)? {
        Some(hint) => manager.with_unknown_hint(hint),
        None => manager,
    })
}

/// Loads the selected tasks and groups with the options behind their names, and prints warnings about them.
pub(crate) fn load(manager: &TaskManager, words: &[String], printer: &mut Printer) -> Result<TaskDict> {
    let loaded = manager.load(&manager.select(words)?, Overrides::default())?;
    print_warnings(&loaded, printer);
    Ok(loaded)
}

/// Prints the warnings about tasks.
pub(crate) fn print_warnings(loaded: &TaskDict, printer: &mut Printer) {
    for warning in &loaded.warnings {
        report::warn(printer, warning);
    }
}

/// A hint about installing the public library, unless it is installed or another library was chosen.
pub(crate) fn missing_library(arguments: &LibraryArgs) -> Result<Option<String>> {
    if arguments.library.is_some() || Home::from_environment()?.default_root()?.is_some() {
        return Ok(None);
    }
    Ok(Some("The public task library is not installed; `lm-eval tasks pull` installs it".to_owned()))
}
