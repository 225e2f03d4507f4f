//! Which folders hold task definitions.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lmeval::library::Home;
use lmeval_core::Diagnostic;
use lmeval_tasks::TaskManager;

use crate::printer::Printer;
use crate::settings::LibraryArgs;

/// The library roots that the arguments mean, in order: later ones win.
pub(crate) fn resolve(arguments: &LibraryArgs, printer: &mut Printer) -> Result<Vec<PathBuf>> {
    let mut roots = match &arguments.library {
        None => default_roots()?,
        Some(library) => named_roots(library)?,
    };
    for folder in arguments.include_path.iter().flatten() {
        if !folder.is_dir() {
            printer.note(&format!(
                "warning: the folder `{}` of --include_path does not exist",
                folder.display()
            ));
        }
        roots.push(folder.clone());
    }
    Ok(roots)
}

/// The built-in library, and over it the installed one.
fn default_roots() -> Result<Vec<PathBuf>> {
    let mut roots = vec![PathBuf::from(lmeval_tasks::BUILTIN_LIBRARY)];
    roots.extend(Home::from_environment()?.default_root()?);
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

fn named_roots(library: &str) -> Result<Vec<PathBuf>> {
    match library {
        "none" => return Ok(Vec::new()),
        "builtin" => return Ok(vec![PathBuf::from(lmeval_tasks::BUILTIN_LIBRARY)]),
        _ => {}
    }
    let home = Home::from_environment()?;
    if let Some(root) = home.root_of(library)? {
        return Ok(vec![root]);
    }
    if Path::new(library).is_dir() {
        return Ok(vec![PathBuf::from(library)]);
    }
    let installed: Vec<String> =
        home.installed()?.into_iter().map(|one| format!("`{}`", one.version)).collect();
    let installed = if installed.is_empty() { "none".to_owned() } else { installed.join(", ") };
    let told = Diagnostic::new(format!("`{library}` is neither an installed library nor a folder"));
    bail!(told.hint(format!("Installed libraries: {installed}; `builtin` and `none` are always there")));
}
