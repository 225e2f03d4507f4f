//! The configuration of a task as results show it, in either dialect.

use std::sync::Arc;

use lmeval_core::{Dialect, OutputType};
use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::display_reference;

use super::task::TaskConfig;
use crate::source::Mapping;

/// The task keys in the order of 0.4, followed by those that only 0.5 knows.
const KEYS_04: [&str; 37] = [
    "task",
    "task_alias",
    "custom_dataset",
    "dataset_path",
    "dataset_name",
    "dataset_kwargs",
    "training_split",
    "validation_split",
    "test_split",
    "fewshot_split",
    "process_docs",
    "doc_to_text",
    "doc_to_target",
    "doc_to_image",
    "doc_to_audio",
    "unsafe_code",
    "doc_to_choice",
    "process_results",
    "use_prompt",
    "description",
    "target_delimiter",
    "fewshot_delimiter",
    "fewshot_config",
    "num_fewshot",
    "metric_list",
    "output_type",
    "generation_kwargs",
    "repeats",
    "filter_list",
    "should_decontaminate",
    "doc_to_decontamination_query",
    "gen_prefix",
    "metadata",
    "formats",
    "scorer",
    "multiple_inputs",
    "multiple_targets",
];

/// The keys of `fewshot_config`, each with the task key that it defaults to.
const FEWSHOT_KEYS: [(&str, Option<&str>); 11] = [
    ("sampler", None),
    ("split", Some("fewshot_split")),
    ("process_docs", Some("process_docs")),
    ("fewshot_indices", None),
    ("samples", None),
    ("doc_to_text", Some("doc_to_text")),
    ("doc_to_choice", Some("doc_to_choice")),
    ("doc_to_target", Some("doc_to_target")),
    ("gen_prefix", Some("gen_prefix")),
    ("fewshot_delimiter", Some("fewshot_delimiter")),
    ("target_delimiter", Some("target_delimiter")),
];

/// The keys that a prompt format sets.
const FORMAT_KEYS: [&str; 8] = [
    "output_type",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "gen_prefix",
    "target_delimiter",
    "fewshot_delimiter",
    "scorer",
];

impl TaskConfig {
    /// The name of the prompt format that sets a key; `None` if the task file sets it.
    pub fn format_of(&self, key: &str) -> Option<&str> {
        self.format.as_deref().filter(|_| FORMAT_KEYS.contains(&key))
    }

    /// The entry of `configs` in results, with the overrides of the run applied.
    ///
    /// `mapping` is the mapping that the configuration was read from. Top-level nulls are omitted. Functions appear as
    /// references, since their source code is not known here. `predict_only` means that the run scores nothing.
    pub fn to_dict(&self, mapping: &Mapping, dialect: &Dialect, predict_only: bool) -> Dict {
        if *dialect == Dialect::V04 {
            return Written { config: self, mapping, typed: self.to_value() }.dump(predict_only);
        }
        match self.to_value() {
            Value::Dict(dict) => Dict::clone(&dict),
            _ => Dict::new(),
        }
    }
}

/// A configuration as it was written, which is how 0.4 shows it.
struct Written<'a> {
    config: &'a TaskConfig,
    mapping: &'a Mapping,
    typed: Value,
}

impl Written<'_> {
    fn dump(&self, predict_only: bool) -> Dict {
        let mut dict = Dict::new();
        for key in KEYS_04 {
            let value = match key {
                "metric_list" if predict_only => {
                    Value::list([Value::dict([("metric", Value::str("bypass"))])])
                }
                "process_results" if predict_only => Value::str("process_results"),
                _ => self.value_of(key),
            };
            if !value.is_none() {
                dict.insert(key, references(&value));
            }
        }
        for (key, value) in self.config.extras.iter() {
            dict.insert(key.clone(), references(value));
        }
        dict
    }

    fn typed(&self, key: &str) -> Value {
        self.typed.as_dict().and_then(|dict| dict.get_str(key)).cloned().unwrap_or_default()
    }

    fn value_of(&self, key: &str) -> Value {
        let config = self.config;
        let or = |default: Value| self.mapping.get(key).cloned().unwrap_or(default);
        match key {
            _ if config.format_of(key).is_some() => self.typed(key),
            "task" => self.typed(key),
            "task_alias" if self.has_own_alias() => or(Value::None),
            "task_alias" => Value::None,
            "dataset_kwargs" => match self.mapping.get(key) {
                Some(Value::Dict(_)) => Value::from(config.loader_kwargs()),
                _ => Value::None,
            },
            "unsafe_code" | "should_decontaminate" => or(Value::Bool(false)),
            "description" => or(Value::str("")),
            "target_delimiter" => or(Value::str(" ")),
            "fewshot_delimiter" => or(Value::str("\n\n")),
            "output_type" => or(Value::str(OutputType::default().name())),
            "fewshot_config" => self.fewshot_config(),
            "num_fewshot" => Value::Int(config.num_fewshot.unwrap_or(0)),
            "generation_kwargs" => self.generation_kwargs(),
            "repeats" if config.output_type == OutputType::GenerateUntil => self.typed(key),
            "repeats" => or(Value::Int(1)),
            "metadata" => self.metadata(),
            _ => or(Value::None),
        }
    }

    /// Whether the task is defined inline in its group's list; its name is then prefixed with the group.
    fn is_inline_member(&self) -> bool {
        self.config.task.contains("::")
    }

    /// Whether the file sets the alias: an inline member without one gets its short name.
    fn has_own_alias(&self) -> bool {
        let short = self.config.task.rsplit("::").next();
        // An absent key is located at its parent, and so is `_qualified_name`, which no file contains.
        let range = |key: &str| self.mapping.locate(&[key.into()]).map(|location| location.range);
        !self.is_inline_member()
            || self.config.task_alias.as_deref() != short
            || range("task_alias") != range("_qualified_name")
    }

    fn metadata(&self) -> Value {
        let mut metadata = self.config.metadata.clone();
        if self.is_inline_member() {
            // Reference: such a task has no `config_source`.
            metadata.remove_str("config_source");
        }
        // Only a Python task class can leave this empty.
        if metadata.is_empty() && !self.mapping.contains("metadata") {
            Value::None
        } else {
            Value::from(metadata)
        }
    }

    fn fewshot_config(&self) -> Value {
        let given = self.mapping.get("fewshot_config").and_then(Value::as_dict);
        Value::dict(FEWSHOT_KEYS.map(|(key, inherited)| {
            let value = match (given.and_then(|given| given.get_str(key)), inherited) {
                (Some(value), _) => value.clone(),
                (None, Some(inherited)) => self.value_of(inherited),
                (None, None) if key == "sampler" => Value::str("default"),
                (None, None) => Value::None,
            };
            (key, value)
        }))
    }

    fn generation_kwargs(&self) -> Value {
        let is_generation = self.config.output_type == OutputType::GenerateUntil;
        let is_written = matches!(self.mapping.get("generation_kwargs"), Some(Value::Dict(_)));
        if !is_generation && !is_written {
            return Value::None;
        }
        Value::from(self.config.generation_kwargs.in_dialect(&Dialect::V04).clone())
    }
}

/// Replaces functions by their references.
fn references(value: &Value) -> Value {
    match value {
        Value::Function(function) => Value::from(display_reference(&function.reference)),
        Value::List(items) => Value::list(items.iter().map(references)),
        Value::Tuple(items) => Value::Tuple(Arc::new(items.iter().map(references).collect())),
        Value::Dict(dict) => {
            Value::from(dict.iter().map(|(key, value)| (key.clone(), references(value))).collect::<Dict>())
        }
        other => other.clone(),
    }
}
