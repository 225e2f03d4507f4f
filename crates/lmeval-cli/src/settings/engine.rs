//! Converts settings into options for the engine, the backends and the Python host.

use std::path::{Path, PathBuf};

use anyhow::Result;
use lmeval::Placement;
use lmeval_core::{AskedArguments, ModelSettings, ProcessPaths};
use lmeval_engine::EvaluateOptions;
use lmeval_host::{active_environment, find_python};
use lmeval_pycompat::Value;
use lmeval_report::{Layout, ModelName};

use super::judges::JudgeBinding;
use super::resolve::RunSettings;

impl RunSettings {
    /// Options for the engine. Samples are retained; callers add the journal and the Python host.
    pub(crate) fn evaluate_options(&self) -> EvaluateOptions {
        let data = lmeval::environment::data_options();
        let mut options = EvaluateOptions { dialect: self.dialect, data, ..EvaluateOptions::default() };
        self.documents.apply(&mut options);
        self.prompts.apply(&mut options);
        self.scoring.apply(&mut options);
        options.log_samples = self.output.log_samples;
        options.preview = self.output.view;
        options.max_failures = self.answers.max_failures;
        options
    }

    /// The settings from which a judge is created: its own backend and arguments, and the rest of the run.
    pub(crate) fn for_judge(&self, judge: &JudgeBinding) -> Result<Self> {
        let mut own = self.clone();
        let mut args = judge.args.clone();
        let Placement { batch_size, max_batch_size, device } = Placement::take(&mut args)?;
        own.model.batch_size = batch_size.unwrap_or(Value::Int(1));
        own.model.max_batch_size = max_batch_size;
        own.model.device = device.or_else(|| self.model.device.clone());
        (own.model.name, own.model.args) = (judge.backend.clone(), args);
        // Workers compute the evaluated model only.
        own.model.workers = None;
        Ok(own)
    }

    /// The paths for a model that runs in a process of its own.
    fn process_paths(&self) -> ProcessPaths {
        // Beside the journal.
        let beside = |path: &PathBuf| match path.extension() {
            Some(extension) if extension == "json" => path.parent().map(Path::to_owned).unwrap_or_default(),
            _ => {
                let name = ModelName::of(
                    &self.model.name,
                    &Value::from(self.model.args.clone()),
                    self.prompts.seeds[0],
                );
                Layout::new(path, &name.sanitized).folder().to_owned()
            }
        };
        ProcessPaths {
            python: find_python(self.python.python.as_deref(), active_environment().as_deref()),
            cache: lmeval::library::cache_folder(),
            logs: self.output.path.as_ref().map(beside),
        }
    }

    /// Settings for a built-in backend.
    pub(crate) fn model_settings(&self) -> ModelSettings {
        let mut args = self.model.args.clone();
        if self.model.trust_remote_code {
            // Most backends have no such argument; those that load checkpoints read the field below.
            args.remove_str("trust_remote_code");
        }
        ModelSettings {
            args,
            batch_size: Some(self.model.batch_size.clone()),
            max_batch_size: self.model.max_batch_size,
            device: self.model.device.clone(),
            random_seed: self.prompts.seeds[0],
            dialect: self.dialect,
            trust_remote_code: self.model.trust_remote_code,
            defer_contact: false,
            downloads: None,
            process: self.process_paths(),
            asked: AskedArguments::default(),
        }
    }
}
