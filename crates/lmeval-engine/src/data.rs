//! Loads the data of tasks.

use std::path::Path;
use std::sync::Arc;

use lmeval_core::{MemorySplits, Splits};
use lmeval_data::Settings;
use lmeval_scoring::Host;
use lmeval_tasks::prompt::RequestSources;
use lmeval_tasks::{Task, embedded};

use crate::class_tasks::install_services;
use crate::error::EngineError;
use crate::options::DataOptions;
use crate::plan::settings;

/// Loads the splits that a task uses.
pub fn load_splits(task: &Task, options: &DataOptions) -> Result<Arc<dyn Splits>, EngineError> {
    if task.class_task().is_some_and(|class| class.loads_documents()) {
        return Ok(Arc::new(MemorySplits::new()));
    }
    if let Some(function) = &task.config.custom_dataset {
        let Some(python) = &options.python else {
            let (task, function) = (task.name(), &function.reference);
            let message = format!("The data of `{task}` comes from the Python function `{function}`");
            return Err(settings(message, "Remove the task, or set `dataset_path`"));
        };
        let mut kwargs = task.config.dataset_kwargs.clone().unwrap_or_default();
        kwargs.update(&task.config.metadata);
        return python.custom_dataset(function, &kwargs).map_err(|error| EngineError::Function {
            task: task.name().to_owned(),
            source: Box::new(error),
        });
    }
    let Some(mut request) = task.dataset_request() else {
        return Err(settings(format!("The task `{}` has no data", task.name()), "Set `dataset_path`"));
    };
    request.limit_rows = options.limit_rows;
    request.dataset_dir.clone_from(&options.dataset_dir);
    let data = lmeval_data::load(&request, &data_settings(options));
    let data =
        data.map_err(|source| EngineError::Data { task: task.name().to_owned(), source: Box::new(source) })?;
    Ok(Arc::new(data))
}

/// The settings for finding datasets, with the built-in data files added.
pub(crate) fn data_settings(options: &DataOptions) -> Settings {
    let mut settings = options.settings.clone().unwrap_or_else(Settings::from_environment);
    settings.virtual_files.get_or_insert(|path: &Path| embedded::read(path).map(str::as_bytes));
    settings
}

/// The sources that a task's requests are built from: its data, its registry and the Python host.
pub fn request_sources(task: &Task, options: &DataOptions) -> Result<RequestSources, EngineError> {
    let splits = load_splits(task, options)?;
    let sources = RequestSources::new(splits).with_registry(Arc::clone(task.registry()));
    Ok(match &options.python {
        None => sources,
        Some(python) => {
            install_services(python, options);
            sources.with_host(Arc::clone(python) as Arc<dyn Host>)
        }
    })
}
