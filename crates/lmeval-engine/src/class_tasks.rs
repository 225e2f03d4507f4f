//! Tasks implemented as Python classes.

use std::sync::Arc;

use lmeval_core::{DatasetRequest, Dialect, DocumentError};
use lmeval_host::PythonHost;
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::{HostServices, NamedSplits};
use lmeval_tasks::prompt::Templates;
use lmeval_tasks::{Diagnostic, Task, TaskOptions};

use crate::data::data_settings;
use crate::error::EngineError;
use crate::options::{DataOptions, EvaluateOptions};

/// The run settings that Python task classes need.
#[derive(Clone, Debug, Default)]
pub struct ClassSettings {
    /// Overrides the tasks' number of few-shot examples.
    pub num_fewshot: Option<i64>,
    /// Overrides the number of answers per document of generation tasks.
    pub repeats: Option<usize>,
    /// Overrides generation settings of the tasks.
    pub gen_kwargs: Option<Dict>,
    /// The seed for choosing few-shot examples.
    pub fewshot_seed: Option<i64>,
    /// The behaviour line, 0.5 or 0.4.
    pub dialect: Dialect,
}

impl ClassSettings {
    pub(crate) fn from_options(options: &EvaluateOptions, own: &TaskOptions) -> Self {
        Self {
            num_fewshot: own.num_fewshot.or(options.num_fewshot),
            repeats: own.repeats.or(options.repeats),
            gen_kwargs: options.gen_kwargs.clone(),
            fewshot_seed: options.fewshot_seed,
            dialect: options.dialect,
        }
    }

    fn to_dict(&self) -> Dict {
        let repeats = self.repeats.and_then(|repeats| i64::try_from(repeats).ok());
        let compat = if self.dialect == Dialect::V04 { "0.4" } else { "0.5" };
        let settings = [
            ("num_fewshot", Value::from(self.num_fewshot)),
            ("repeats", Value::from(repeats)),
            ("gen_kwargs", Value::from(self.gen_kwargs.clone())),
            ("fewshot_seed", Value::from(self.fewshot_seed)),
            ("compat", Value::str(compat)),
        ];
        settings.into_iter().map(|(name, value)| (Value::str(name), value)).collect()
    }
}

/// Instantiates the Python class of a task and merges the configuration that it reports into the task. Does
/// nothing for other tasks.
pub fn load_class(
    task: &mut Task,
    settings: &ClassSettings,
    data: &DataOptions,
) -> Result<Vec<Diagnostic>, EngineError> {
    let Some(class) = task.config.class.clone() else { return Ok(Vec::new()) };
    if task.class_task().is_some() {
        return Ok(Vec::new());
    }
    let Some(python) = &data.python else {
        let message = format!("The task `{}` is the Python class `{}`", task.name(), class.reference);
        return Err(Diagnostic::new(message).hint("Run with Python enabled, or remove the task").into());
    };
    install_services(python, data);
    let described = python.describe_class(&class, task.mapping().values(), &settings.to_dict());
    let described = described
        .map_err(|error| EngineError::Class { task: task.name().to_owned(), source: Box::new(error) })?;
    Ok(task.set_class(&described)?)
}

/// Gives Python code access to datasets and templates.
pub(crate) fn install_services(python: &Arc<PythonHost>, data: &DataOptions) {
    let data = DataOptions { python: None, ..data.clone() };
    python.set_services(Arc::new(Services { data, templates: Templates::default() }));
}

/// The datasets and templates that Python code can request.
struct Services {
    data: DataOptions,
    templates: Templates,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

impl HostServices for Services {
    fn dataset(&self, request: &DatasetRequest) -> Result<NamedSplits, DocumentError> {
        let mut request = request.clone();
        request.limit_rows = self.data.limit_rows;
        request.dataset_dir.clone_from(&self.data.dataset_dir);
        let loaded = lmeval_data::load(&request, &data_settings(&self.data))?;
        let names = loaded.names().map(str::to_owned).collect();
        Ok(NamedSplits { names, splits: Arc::new(loaded) })
    }

    fn render(&self, template: &str, document: &Dict) -> Result<String, DocumentError> {
        Ok(self.templates.render(template, document)?)
    }
}
