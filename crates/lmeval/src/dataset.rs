//! The data of a task.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use lmeval_core::Splits;
use lmeval_data::{Progress, Request, Settings};
use lmeval_tasks::{Task, embedded};

use crate::environment;
use crate::report::with_hints;

/// How data is found, as the environment says.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::from_environment();
    settings.virtual_files = Some(|path: &Path| embedded::read(path).map(str::as_bytes));
    settings.progress = Arc::new(Downloads);
    settings
}

/// Says on standard error what is downloaded.
struct Downloads;

impl Progress for Downloads {
    fn start(&self, file: &str, done: u64, total: Option<u64>) {
        let size = total.map(|total| format!(", {:.1} MB", total as f64 / 1e6)).unwrap_or_default();
        let again = if done > 0 { ", going on where it stopped" } else { "" };
        note(&format!("Downloading {file}{size}{again}"));
    }

    fn retry(&self, what: &str, reason: &str, wait: Duration) {
        note(&format!("Trying {what} again in {:.0} s: {reason}", wait.as_secs_f64()));
    }
}

/// There is nobody to tell if standard error is gone.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Loads the splits that a task names.
pub(crate) fn load(task: &Task, settings: &Settings) -> Result<Arc<dyn Splits>> {
    if let Some(function) = &task.config.custom_dataset {
        return Err(anyhow!(
            "The data of `{}` comes from the Python function `{}`, which this version cannot call yet",
            task.name(),
            function.reference
        ));
    }
    let Some(mut request) = Request::for_task(task) else {
        return Err(anyhow!("The task `{}` names no data\nhint: Set `dataset_path`", task.name()));
    };
    request.limit_rows = environment::limit_rows();
    request.dataset_dir = std::env::var_os(environment::LM_EVAL_DATASET_DIR).map(PathBuf::from);
    let data = lmeval_data::load(&request, settings).map_err(|error| {
        with_hints(format!("The data of `{}` cannot be loaded: {error}", task.name()), &error.hints())
    })?;
    Ok(Arc::new(data))
}
