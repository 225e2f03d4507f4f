//! What a task asks of its data.

use std::path::Path;

use lmeval_tasks::Task;

use crate::request::Request;

impl Request {
    /// The data set that a task names, with the splits that it needs; `None` where the data comes from a function or is
    /// not named at all.
    pub fn for_task(task: &Task) -> Option<Self> {
        let config = &task.config;
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
        Some(Self {
            path: config.dataset_path.clone()?,
            name: config.dataset_name.clone(),
            splits,
            kwargs: config.loader_kwargs(),
            base: task.source().and_then(Path::parent).map(Path::to_owned),
            ..Self::default()
        })
    }
}
