//! Resolves library settings to folders.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lmeval_core::Diagnostic;
use lmeval_tasks::BUILTIN_LIBRARY;

use super::options::LibraryArgs;
use crate::library::Home;

impl LibraryArgs {
    /// The task folders in order of precedence: later ones win.
    pub fn roots(&self) -> Result<Vec<PathBuf>> {
        let mut roots = match &self.library {
            None => default_roots()?,
            Some(library) => named_roots(library)?,
        };
        roots.extend(self.include_path.iter().flatten().cloned());
        Ok(roots)
    }
}

/// The built-in library, and the installed one, which wins over it.
fn default_roots() -> Result<Vec<PathBuf>> {
    let mut roots = vec![PathBuf::from(BUILTIN_LIBRARY)];
    roots.extend(Home::from_environment()?.default_root()?);
    Ok(roots)
}

fn named_roots(library: &str) -> Result<Vec<PathBuf>> {
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
    bail!(
        diagnostic
            .hint(format!("Installed libraries: {installed}; `builtin` and `none` are always available"))
    );
}
