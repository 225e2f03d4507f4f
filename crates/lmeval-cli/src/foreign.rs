//! Runs that other programs wrote, for the commands that read finished runs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use lmeval_analysis::foreign::converted;
use lmeval_analysis::read::Run;
use lmeval_core::Diagnostic;

/// The run that a path names: itself, or the files that a log of another program was converted to.
pub(crate) fn run(path: &Path) -> Result<PathBuf> {
    let mut logs = logs(path)?;
    match logs.len() {
        0 => Ok(path.to_owned()),
        _ if path.is_dir() && Run::open_all(path).is_ok() => Ok(path.to_owned()),
        1 => Ok(logs.remove(0)),
        count => bail!(
            Diagnostic::new(format!("`{}` holds {count} runs of other programs", path.display()))
                .hint("Name the file of one; `lm-eval table` reads all of them")
        ),
    }
}

/// The runs that paths name. A folder may hold our runs and those of other programs.
pub(crate) fn runs(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let logs = logs(path)?;
        if logs.is_empty() || (path.is_dir() && Run::open_all(path).is_ok()) {
            found.push(path.clone());
        }
        found.extend(logs);
    }
    Ok(found)
}

fn logs(path: &Path) -> Result<Vec<PathBuf>> {
    // Without a home folder there is nowhere to keep files that can be made again, but the folder for temporary ones.
    let cache = lmeval::library::cache_folder().unwrap_or_else(|| std::env::temp_dir().join("lm-eval"));
    Ok(converted(path, &cache)?)
}
