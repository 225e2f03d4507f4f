//! Which folders hold task definitions.

use std::path::PathBuf;

use anyhow::Result;
use lmeval::library::Home;
use lmeval::settings::LibraryArgs;
use lmeval_tasks::TaskManager;

use crate::printer::Printer;

/// The library roots that the arguments mean, in order: later ones win.
pub(crate) fn resolve(arguments: &LibraryArgs, printer: &mut Printer) -> Result<Vec<PathBuf>> {
    let roots = arguments.roots()?;
    for folder in arguments.include_path.iter().flatten() {
        if !folder.is_dir() {
            printer.note(&format!(
                "warning: the folder `{}` of --include_path does not exist",
                folder.display()
            ));
        }
    }
    Ok(roots)
}

/// Finds tasks in the roots; a name that is unknown because the public library is not installed says so.
pub(crate) fn manager(roots: &[PathBuf], arguments: &LibraryArgs) -> Result<TaskManager> {
    let manager = TaskManager::new(roots).with_registry(lmeval::registry());
    Ok(match missing_library(arguments)? {
        Some(hint) => manager.with_unknown_hint(hint),
        None => manager,
    })
}

/// How to get the public library, where a name may be missing because it is not installed.
pub(crate) fn missing_library(arguments: &LibraryArgs) -> Result<Option<String>> {
    if arguments.library.is_some() || Home::from_environment()?.default_root()?.is_some() {
        return Ok(None);
    }
    Ok(Some("The public task library is not installed; `lm-eval tasks pull` installs it".to_owned()))
}
