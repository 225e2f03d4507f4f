//! Task libraries: the built-in one, those installed by `lm-eval tasks pull`, and folders.
//!
//! An installed library is the `lm_eval/tasks` folder of a released package.

mod home;
mod version;

use std::path::{Path, PathBuf};

use lmeval_core::Diagnostic;
use lmeval_engine::EngineError;
use lmeval_tasks::BUILTIN_LIBRARY;

pub use home::{Home, Installed, cache_folder};
pub use version::Version;

/// The folder of installed task libraries; `lm-eval` in the user's data directory by default.
pub const LM_EVAL_HOME: &str = "LM_EVAL_HOME";

/// The path of the task folder inside a package.
pub const TASKS_FOLDER: &str = "lm_eval/tasks";

/// The folders in which tasks are looked up, in order of precedence: later ones win.
///
/// `library` is the version of an installed library, a folder, `builtin` or `none`. Without it, these are the built-in library
/// and the default installed one.
pub fn roots(library: Option<&str>, include: &[PathBuf]) -> Result<Vec<PathBuf>, EngineError> {
    let mut roots = match library {
        None => default_roots()?,
        Some(library) => named_roots(library)?,
    };
    roots.extend(include.iter().cloned());
    Ok(roots)
}

/// The built-in library, and the installed one, which wins over it.
fn default_roots() -> Result<Vec<PathBuf>, EngineError> {
    let mut roots = vec![PathBuf::from(BUILTIN_LIBRARY)];
    roots.extend(Home::from_environment()?.default_root()?);
    Ok(roots)
}

fn named_roots(library: &str) -> Result<Vec<PathBuf>, EngineError> {
    match library {
        "none" => return Ok(Vec::new()),
        "builtin" => return Ok(vec![PathBuf::from(BUILTIN_LIBRARY)]),
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
    let diagnostic = Diagnostic::new(format!("`{library}` is neither an installed library nor a folder"));
    let hint = format!("Installed libraries: {installed}; `builtin` and `none` are always available");
    Err(diagnostic.hint(hint).into())
}
