//! A loaded task.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::DatasetRequest;
use lmeval_pycompat::Value;
use lmeval_scoring::registry::Registry;

use super::ClassTask;
use super::options::TaskOptions;
use crate::config::TaskConfig;
use crate::source::{Mapping, Origin};

/// A loaded task: its typed configuration and the mapping it was read from.
#[derive(Clone, Debug)]
pub struct Task {
    pub(super) name: String,
    /// The typed configuration, with overrides applied.
    pub config: TaskConfig,
    /// What the caller of the run wants for this task.
    pub options: TaskOptions,
    pub(super) mapping: Mapping,
    pub(super) source: Option<PathBuf>,
    pub(super) class: Option<Arc<ClassTask>>,
    pub(super) registry: Arc<Registry>,
}

impl Task {
    /// The key in results: `group::task` inside a group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the options of the caller. A number of examples that is asked of this very task wins over any in its definition.
    pub(super) fn set_options(&mut self, options: &TaskOptions) {
        self.options = options.clone();
        if let Some(count) = options.num_fewshot {
            self.config.num_fewshot = Some(count);
            self.mapping.insert("num_fewshot", Value::Int(count), Origin::Override);
        }
    }

    /// Applies the number of examples that the run asks for, unless it asks another one of this task.
    pub fn set_num_fewshot(&mut self, of_run: Option<i64>) {
        match (self.options.num_fewshot, of_run) {
            (Some(own), _) => self.config.num_fewshot = Some(own),
            (None, Some(count)) => drop(self.config.set_num_fewshot(count)),
            (None, None) => {}
        }
    }

    /// The same task with another configuration, read from another mapping.
    pub(crate) fn with_config(&self, config: TaskConfig, mapping: Mapping) -> Self {
        Self { config, mapping, ..self.clone() }
    }

    /// The mapping that the configuration was read from, with the origin of each key.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The file that defines the task; `None` for an inline task.
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// The registry in which the task's names are looked up.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The dataset and the splits that the task needs; `None` if its documents come from a function or it names no
    /// dataset.
    pub fn dataset_request(&self) -> Option<DatasetRequest> {
        let config = &self.config;
        if config.custom_dataset.is_some() {
            return None;
        }
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
        Some(DatasetRequest {
            path: config.dataset_path.clone()?,
            name: config.dataset_name.clone(),
            splits,
            kwargs: config.loader_kwargs(),
            base: self.source().and_then(Path::parent).map(Path::to_owned),
            ..DatasetRequest::default()
        })
    }
}
