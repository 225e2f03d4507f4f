//! The configuration as results and task files show it.

use std::sync::Arc;

use lmeval_pycompat::{Dict, Function, Value};
use lmeval_scoring::display_reference;

use super::field::Field;
use super::filter::FilterPipeline;
use super::keys::TASK_KEYS;
use super::metric::MetricConfig;
use super::scorer::ScorerConfig;
use super::task::TaskConfig;

impl TaskConfig {
    /// The configuration in key order, without top-level nulls; functions appear as references.
    pub fn to_value(&self) -> Value {
        let mut dict = Dict::new();
        for key in TASK_KEYS {
            let value = self.value_of(key);
            if !value.is_none() {
                dict.insert(key, without_functions(&value));
            }
        }
        for (key, value) in self.extras.iter() {
            dict.insert(key.clone(), without_functions(value));
        }
        Value::from(dict)
    }

    /// The configuration as a task file would define it: functions stay functions, the format is applied, and keys that
    /// only exist during a run are omitted.
    pub fn to_definition(&self) -> Value {
        const OF_A_RUN: [&str; 3] = ["formats", "_formats_selection", "_qualified_name"];
        let mut dict = Dict::new();
        for key in TASK_KEYS.into_iter().filter(|key| !OF_A_RUN.contains(key)) {
            let value = match key {
                // The format is already applied; its name would apply it again.
                "task" if self.format.is_some() => Value::str(self.base_name()),
                _ => self.value_of(key),
            };
            if !value.is_none() && (key != "tag" || value.is_truthy()) {
                dict.insert(key, value);
            }
        }
        if let Some(class) = &self.class {
            dict.insert("class", Value::Function(Arc::clone(class)));
        }
        dict.update(&self.extras);
        let mut metadata = self.metadata.clone();
        metadata.remove_str("config_source");
        dict.insert("metadata", metadata);
        Value::from(dict)
    }

    fn value_of(&self, key: &str) -> Value {
        let text = |text: &Option<String>| Value::from(text.clone());
        let field = |field: &Option<Field>| field.as_ref().map_or(Value::None, Field::to_value);
        let function = |function: &Option<Arc<Function>>| {
            function.as_ref().map_or(Value::None, |function| Value::Function(Arc::clone(function)))
        };
        match key {
            "task" => Value::str(self.task.as_str()),
            "task_alias" => text(&self.task_alias),
            "formats" => self.formats.clone(),
            "output_type" => Value::str(self.output_type.name()),
            "tag" => Value::list(self.tag.iter().map(|tag| Value::str(tag.as_str()))),
            "custom_dataset" => function(&self.custom_dataset),
            "dataset_path" => text(&self.dataset_path),
            "dataset_name" => text(&self.dataset_name),
            "dataset_kwargs" => Value::from(self.dataset_kwargs.clone()),
            "training_split" => text(&self.training_split),
            "validation_split" => text(&self.validation_split),
            "test_split" => text(&self.test_split),
            "fewshot_split" => text(&self.fewshot_split),
            "process_docs" => function(&self.process_docs),
            "description" => field(&self.description),
            "doc_to_text" => field(&self.doc_to_text),
            "doc_to_choice" => field(&self.doc_to_choice),
            "doc_to_target" => field(&self.doc_to_target),
            "gen_prefix" => field(&self.gen_prefix),
            "doc_to_image" => field(&self.doc_to_image),
            "doc_to_audio" => field(&self.doc_to_audio),
            "process_results" => function(&self.process_results),
            "target_delimiter" => text(&self.target_delimiter),
            "fewshot_delimiter" => text(&self.fewshot_delimiter),
            "fewshot_config" => self.fewshot_config.to_value(),
            "num_fewshot" => Value::from(self.num_fewshot),
            "generation_kwargs" => Value::from(self.generation_kwargs.dict().clone()),
            "metric_list" => Value::list(self.metric_list.iter().map(MetricConfig::to_value)),
            "filter_list" => Value::list(self.filter_list.iter().map(FilterPipeline::to_value)),
            "scorer" => self.scorer.as_ref().map_or(Value::None, ScorerConfig::to_value),
            "repeats" => Value::Int(i64::try_from(self.repeats).unwrap_or(i64::MAX)),
            "reductions" if self.reductions.is_empty() => Value::None,
            "reductions" => Value::list(self.reductions.iter().map(|name| Value::Str(Arc::clone(name)))),
            "unsafe_code" => Value::Bool(self.unsafe_code),
            "use_prompt" => self.use_prompt.clone(),
            "multiple_inputs" => Value::Bool(self.multiple_inputs),
            "multiple_targets" => Value::Bool(self.multiple_targets),
            "should_decontaminate" => self.should_decontaminate.clone(),
            "doc_to_decontamination_query" => self.doc_to_decontamination_query.clone(),
            "metadata" => Value::from(self.metadata.clone()),
            "_formats_selection" => text(&self.formats_selection),
            "_qualified_name" => text(&self.qualified_name),
            _ => Value::None,
        }
    }
}

/// Replaces functions by their references.
fn without_functions(value: &Value) -> Value {
    match value {
        Value::Function(function) => Value::from(display_reference(&function.reference)),
        Value::List(items) => Value::list(items.iter().map(without_functions)),
        Value::Tuple(items) => Value::tuple(items.iter().map(without_functions)),
        Value::Dict(dict) => Value::from(
            dict.iter().map(|(key, value)| (key.clone(), without_functions(value))).collect::<Dict>(),
        ),
        other => other.clone(),
    }
}
