//! Converts settings into options for the engine, the back ends and the Python host.

use std::path::{Path, PathBuf};

use anyhow::Result;
use lmeval::Placement;
use lmeval_core::{AskedArguments, ModelSettings, ProcessPaths};
use lmeval_engine::{Abilities, Cancel, EvaluateOptions};
use lmeval_host::{active_environment, find_python};
use lmeval_pycompat::Value;
use lmeval_report::{Layout, ModelName};

use super::judges::JudgeBinding;
use super::options::Choices;
use super::resolve::RunSettings;
use super::shard::ShardNumber;

impl RunSettings {
    /// Options for the engine. Samples are retained; callers add the journal and the Python host.
    pub(crate) fn evaluate_options(&self) -> EvaluateOptions {
        EvaluateOptions {
            dialect: self.dialect,
            limit: self.limit.to_f64(),
            samples: self.samples.clone(),
            digests: false,
            part: self.shard.and_then(ShardNumber::part),
            num_fewshot: self.num_fewshot,
            repeats: self.repeats,
            gen_kwargs: Some(self.gen_kwargs.clone()).filter(|kwargs| !kwargs.is_empty()),
            fewshot_seed: self.seeds[3],
            system_instruction: self.system_instruction.clone(),
            apply_chat_template: self.apply_chat_template.clone(),
            fewshot_as_multiturn: self.fewshot_as_multiturn == Some(true),
            bootstrap_iters: self.bootstrap_iters,
            log_samples: self.log_samples,
            keep_samples: true,
            choices: self.choices.map(Choices::method),
            answered_by: Abilities::default(),
            predict_only: self.predict_only,
            confirm_run_unsafe_code: self.confirm_run_unsafe_code,
            max_failures: self.max_failures,
            preview: self.view,
            journal: None,
            data: lmeval::environment::data_options(),
            judges: Vec::new(),
            baseline: None,
            cancel: Cancel::new(),
        }
    }

    /// The settings from which a judge is created: its own back end and arguments, and the rest of the run.
    pub(crate) fn for_judge(&self, judge: &JudgeBinding) -> Result<Self> {
        let mut own = self.clone();
        let mut args = judge.args.clone();
        let Placement { batch_size, max_batch_size, device } = Placement::take(&mut args)?;
        own.batch_size = batch_size.unwrap_or(Value::Int(1));
        own.max_batch_size = max_batch_size;
        own.device = device.or_else(|| self.device.clone());
        (own.model, own.model_args) = (judge.backend.clone(), args);
        // Workers compute the evaluated model only.
        own.workers = None;
        Ok(own)
    }

    /// The paths for a model that runs in a process of its own.
    fn process_paths(&self) -> ProcessPaths {
        // Beside the journal.
        let beside = |path: &PathBuf| match path.extension() {
            Some(extension) if extension == "json" => path.parent().map(Path::to_owned).unwrap_or_default(),
            _ => {
                let name = ModelName::of(&self.model, &Value::from(self.model_args.clone()), self.seeds[0]);
                Layout::new(path, &name.sanitized).folder().to_owned()
            }
        };
        ProcessPaths {
            python: find_python(self.python.as_deref(), active_environment().as_deref()),
            cache: lmeval::library::cache_folder(),
            logs: self.output_path.as_ref().map(beside),
        }
    }

    /// Settings for a built-in back end.
    pub(crate) fn model_settings(&self) -> ModelSettings {
        let mut args = self.model_args.clone();
        if self.trust_remote_code {
            // Most back ends have no such argument; those that load checkpoints read the field below.
            args.remove_str("trust_remote_code");
        }
        ModelSettings {
            args,
            batch_size: Some(self.batch_size.clone()),
            max_batch_size: self.max_batch_size,
            device: self.device.clone(),
            random_seed: self.seeds[0],
            dialect: self.dialect,
            trust_remote_code: self.trust_remote_code,
            defer_contact: false,
            downloads: None,
            process: self.process_paths(),
            asked: AskedArguments::default(),
        }
    }
}
