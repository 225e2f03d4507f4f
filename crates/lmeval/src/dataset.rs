//! The data of a task.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use lmeval_core::Splits;
use lmeval_data::{Request, Settings};
use lmeval_tasks::{Task, embedded};

use crate::environment;

/// How data is found, as the environment says.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::from_environment();
    settings.virtual_files = Some(|path: &Path| embedded::read(path).map(str::as_bytes));
    settings
}

/// Loads the splits that a task names.
pub(crate) fn load(task: &Task, settings: &Settings) -> Result<Arc<dyn Splits>> {
    let config = &task.config;
    if let Some(function) = &config.custom_dataset {
        return Err(anyhow!(
            "The data of `{}` comes from the Python function `{}`, which this version cannot call yet",
            task.name(),
            function.reference
        ));
    }
    let Some(path) = &config.dataset_path else {
        return Err(anyhow!(
            "The task `{}` names no data\nhint: Set `dataset_path`",
            task.name()
        ));
    };
    let named = [
        &config.training_split,
        &config.validation_split,
        &config.test_split,
        &config.fewshot_config.split,
    ];
    let mut splits: Vec<String> = Vec::new();
    for split in named.into_iter().flatten() {
        if !splits.contains(split) {
            splits.push(split.clone());
        }
    }
    let request = Request {
        path: path.clone(),
        name: config.dataset_name.clone(),
        splits,
        kwargs: config.loader_kwargs(),
        base: task.source().and_then(Path::parent).map(PathBuf::from),
        limit_rows: environment::limit_rows(),
        dataset_dir: std::env::var_os(environment::LM_EVAL_DATASET_DIR).map(PathBuf::from),
    };
    let data = lmeval_data::load(&request, settings).map_err(|error| {
        let hints: String = error
            .hints()
            .iter()
            .map(|hint| format!("\nhint: {hint}"))
            .collect();
        anyhow!("The data of `{}` cannot be loaded: {error}{hints}", task.name())
    })?;
    Ok(Arc::new(data))
}
