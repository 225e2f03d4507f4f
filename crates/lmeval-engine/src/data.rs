//! The data of a task.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::Splits;
use lmeval_data::{Request, Settings};
use lmeval_tasks::{Task, embedded};

use crate::error::EngineError;
use crate::options::DataOptions;

/// Loads the splits that a task names.
pub fn load_splits(task: &Task, options: &DataOptions) -> Result<Arc<dyn Splits>, EngineError> {
    if let Some(function) = &task.config.custom_dataset {
        return Err(EngineError::Settings {
            message: format!(
                "The data of `{}` comes from the Python function `{}`, which this version cannot call yet",
                task.name(),
                function.reference
            ),
            hint: "Leave the task out, or give it a `dataset_path`".to_owned(),
        });
    }
    let Some(mut request) = Request::for_task(task) else {
        return Err(EngineError::Settings {
            message: format!("The task `{}` names no data", task.name()),
            hint: "Set `dataset_path`".to_owned(),
        });
    };
    request.limit_rows = options.limit_rows;
    request.dataset_dir.clone_from(&options.dataset_dir);
    let mut settings = options.settings.clone().unwrap_or_else(Settings::from_environment);
    settings.virtual_files.get_or_insert(|path: &Path| embedded::read(path).map(str::as_bytes));
    let data = lmeval_data::load(&request, &settings);
    let data =
        data.map_err(|source| EngineError::Data { task: task.name().to_owned(), source: Box::new(source) })?;
    Ok(Arc::new(data))
}
